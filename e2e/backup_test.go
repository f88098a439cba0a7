package e2e

import (
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBackup backs up a server under load, restores the backup beside it, and finds all
// that was acknowledged before the backup began.
func TestBackup(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	directory := t.TempDir()
	data, backup, restored := filepath.Join(directory, "data"), filepath.Join(directory, "backup"), filepath.Join(directory, "restored")
	_, c := startServe(t, data, "--log-level", "warn")
	sink := newSink(t)
	var mu sync.Mutex
	var acknowledged []string
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	for range 4 {
		publishing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				id, err := c.publish(t.Context(), sink.url+"/"+answerOK+"/backup", map[string]string{"Upstash-Delay": "1h"}, strings.Repeat("x", 1000))
				if answer, answered := errors.AsType[*statusError](err); answered && answer.isOfDisk() {
					continue
				}
				if err != nil {
					t.Errorf("the server was alive and failed: %v", err)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	const load = 500 * time.Millisecond
	time.Sleep(load)
	mu.Lock()
	before := append([]string(nil), acknowledged...)
	mu.Unlock()
	mustRun(t, "backup", "--data", data, "--to", backup)
	close(stop)
	publishing.Wait()

	mustRun(t, "restore", "--from", backup, "--to", restored)
	mustRun(t, "check", "--data", backup)
	_, other := startServe(t, restored)
	for _, id := range before {
		if err := other.call(t.Context(), http.MethodGet, "/v2/messages/"+id, nil, "", nil); err != nil {
			t.Errorf("message %s was acknowledged before the backup: %v", id, err)
		}
	}
	t.Logf("%d messages were acknowledged before the backup, %d until it was made", len(before), len(acknowledged))
}

// mustRun runs a command of the program to its end.
func mustRun(t *testing.T, args ...string) {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env = bareEnvironment()
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("posthaste %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
