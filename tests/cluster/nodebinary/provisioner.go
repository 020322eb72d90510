package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	provisionerName = "kandev.dev/local"
	provisionedBy   = "pv.kubernetes.io/provisioned-by"
	selectedNode    = "volume.kubernetes.io/selected-node"
	lookEvery       = 200 * time.Millisecond
	lookWithin      = 15 * time.Second
)

// provisioner gives each claim of its storage classes a folder of the node, as
// a local PersistentVolume. Local volumes take a pod's fsGroup; the host-path
// volumes of the controller manager's own provisioner do not, so a pod that is
// not root could not write there.
type provisioner struct {
	client kubernetes.Interface
	folder string
	node   string
}

// runProvisioner looks again and again rather than watching: one node's few
// claims are read in a millisecond, and a look cannot miss anything.
func runProvisioner() int {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	folder := flag.String("folder", "", "where the volumes' folders are made")
	node := flag.String("node", "", "the name of the node that has this folder")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		return 1
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := provisioner{client, *folder, *node}
	for {
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "provisioner:", err)
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(lookEvery):
		}
	}
}

// look makes what is asked for and removes what is no longer needed. One claim
// that cannot be served keeps no other waiting.
func (p provisioner) look(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, lookWithin)
	defer cancel()
	cached := meta.ListOptions{ResourceVersion: "0"}
	classes, err := p.client.StorageV1().StorageClasses().List(ctx, cached)
	if err != nil {
		return err
	}
	claims, err := p.client.CoreV1().PersistentVolumeClaims("").List(ctx, cached)
	if err != nil {
		return err
	}
	volumes, err := p.client.CoreV1().PersistentVolumes().List(ctx, cached)
	if err != nil {
		return err
	}
	ours := map[string]storage.StorageClass{}
	for _, class := range classes.Items {
		if class.Provisioner == provisionerName {
			ours[class.Name] = class
		}
	}
	var failures []error
	for _, claim := range claims.Items {
		class, ok := ours[className(claim)]
		if ok && p.isAskedFor(claim, class) {
			failures = append(failures, p.provide(ctx, claim, class))
		}
	}
	for _, volume := range volumes.Items {
		if isReleased(volume) {
			failures = append(failures, p.remove(ctx, volume))
		}
	}
	return errors.Join(failures...)
}

func className(claim core.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// isAskedFor tells whether a claim waits for us: with a class that waits for
// the first consumer, the scheduler names the node in an annotation first.
func (p provisioner) isAskedFor(claim core.PersistentVolumeClaim, class storage.StorageClass) bool {
	if claim.Spec.VolumeName != "" || claim.Status.Phase == core.ClaimBound || claim.DeletionTimestamp != nil {
		return false
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storage.VolumeBindingWaitForFirstConsumer
	return !waits || claim.Annotations[selectedNode] == p.node
}

func (p provisioner) provide(ctx context.Context, claim core.PersistentVolumeClaim, class storage.StorageClass) error {
	name := "pvc-" + string(claim.UID)
	path := filepath.Join(p.folder, name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	policy := core.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	onThisNode := core.NodeSelectorTerm{MatchExpressions: []core.NodeSelectorRequirement{{
		Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{p.node},
	}}}
	volume := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisionerName}},
		Spec: core.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: policy,
			VolumeMode:                    claim.Spec.VolumeMode,
			// With the UID, so that a claim of the same name made later is not taken for this one.
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			NodeAffinity: &core.VolumeNodeAffinity{
				Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{onThisNode}},
			},
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // made a look ago; the claim's binding is the controller manager's work
	}
	if err == nil {
		fmt.Fprintf(os.Stderr, "provisioner: %s for %s/%s\n", name, claim.Namespace, claim.Name)
	}
	return err
}

func isReleased(volume core.PersistentVolume) bool {
	return volume.Annotations[provisionedBy] == provisionerName &&
		volume.Spec.Local != nil &&
		volume.Status.Phase == core.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete &&
		volume.DeletionTimestamp == nil
}

func (p provisioner) remove(ctx context.Context, volume core.PersistentVolume) error {
	// The object may be anybody's writing; the folder that goes is the one that we made.
	if volume.Spec.Local.Path != filepath.Join(p.folder, volume.Name) {
		return fmt.Errorf("%s names a folder that is not ours", volume.Name)
	}
	if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
		return err
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
