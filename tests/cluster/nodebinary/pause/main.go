// Command pause is the first process of every pod: it keeps the pod's network
// and process namespaces alive while containers come and go, buries the orphans
// that a shared process namespace brings it, and leaves when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	for {
		select {
		case <-ending:
			return
		case <-orphans:
			bury()
		}
	}
}

// bury reaps all that has died so far: one signal may stand for many deaths.
func bury() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
