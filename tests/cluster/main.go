// Command control-plane is etcd, kube-apiserver and kubectl in one executable.
//
// The first thing looked at is the name it was started by, so a symbolic link
// called "etcd" behaves as etcd; under any other name the first argument picks
// the component. One executable compiles the packages that the programs share
// once, and needs one entry in the cache.
//
// To add a component, give it a line in the map and run "go mod tidy".
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// components holds what each name runs. A function returns the exit status, or
// leaves the process by itself.
var components = map[string]func() int{
	"etcd":           func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kubectl":        runKubectl,
}

func main() {
	run, ok := components[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		// The component must find its own name where a program's name belongs.
		os.Args = os.Args[1:]
		run, ok = components[os.Args[0]]
	}
	if !ok {
		names := slices.Sorted(maps.Keys(components))
		fmt.Fprintf(os.Stderr, "usage: control-plane %s [flags]\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(run())
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
