// Command node is every program of a whole one-node cluster in one executable.
//
// As in the control plane's executable beside it, the name that it was started
// by picks the program, or else the first argument does. It holds all that the
// smaller one holds, in the same versions, so a machine that has built this one
// need not build the other.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          server(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	"kube-controller-manager": server(func() *cobra.Command { return controllers.NewControllerManagerCommand() }),
	"kube-scheduler":          server(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubelet":                 server(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kube-proxy":              server(func() *cobra.Command { return proxy.NewProxyCommand() }),
	"coredns":                 func() int { coremain.Run(); return 0 },
	"provisioner":             runProvisioner,
	"kubectl":                 runKubectl,
}

func main() {
	run, ok := programs[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		// The program must find its own name where a program's name belongs.
		os.Args = os.Args[1:]
		run, ok = programs[os.Args[0]]
	}
	if !ok {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "usage: node %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(run())
}

// server delays the making of a command: each registers flags and metrics that
// the others would trip over.
func server(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// runKubectl differs from the servers: kubectl reads -v before it parses flags
// and words its own errors, which scripts compare.
func runKubectl() int {
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
