package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of its own.
type smallDisk struct{ directory string }

var needRoot = flag.Bool("need-root", false, "fail, rather than skip, the tests that take root and do not have it")

// newSmallDisk mounts a file system of some size, which takes root; without, the test is
// skipped unless -need-root is given, and what the store does on a full disk is tested in
// its package alone.
func newSmallDisk(t *testing.T, megabytes int) *smallDisk {
	t.Helper()
	d := &smallDisk{t.TempDir()}
	err := syscall.Mount("posthaste-test", d.directory, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes))
	if errors.Is(err, syscall.EPERM) {
		const notTried = "NOT TRIED: what a server does on a full disk; to mount a small file system takes root"
		if *needRoot {
			t.Fatal(notTried)
		}
		t.Skip(notTried)
	}
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.directory, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return d
}

func (d *smallDisk) data() string    { return filepath.Join(d.directory, "data") }
func (d *smallDisk) ballast() string { return filepath.Join(d.directory, "ballast") }

// fill leaves so many bytes free.
func (d *smallDisk) fill(t *testing.T, free int64) {
	t.Helper()
	var usage syscall.Statfs_t
	if err := syscall.Statfs(d.directory, &usage); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(d.ballast())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyN(file, zeros{}, int64(usage.Bavail)*usage.Bsize-free)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatalf("fill the disk: %v", err)
	}
}

// makeRoom removes what fill wrote.
func (d *smallDisk) makeRoom(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestFullDisk fills the disk of a server up to its reserve: what is new is refused with
// a sentence, what was accepted goes on, and all is well soon after there is room.
func TestFullDisk(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	disk := newSmallDisk(t, 256)
	sink := newSink(t)
	_, c := startServe(t, disk.data(), "--disk-reserve", "32MiB")
	url := sink.url + "/" + answerOK
	mustPublish := func(header map[string]string) string {
		t.Helper()
		id, err := c.publish(t.Context(), url, header, "x")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	delivered := mustPublish(map[string]string{"Upstash-Delay": "2s"})
	cancelled := mustPublish(map[string]string{"Upstash-Delay": "1h"})

	disk.fill(t, 20<<20)
	err := eventually(t, func() error { // the free space is asked for once a second
		_, err := c.publish(t.Context(), url, nil, "x")
		if err == nil {
			return errors.New("a message was accepted on a full disk")
		}
		var refused *statusError
		if !errors.As(err, &refused) || refused.status != http.StatusServiceUnavailable || !strings.Contains(refused.text, "disk of the server is full") {
			t.Fatalf("a message on a full disk: %v, want 503 with a sentence", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+url, nil, "{}", nil); err == nil || !strings.Contains(err.Error(), "disk of the server is full") {
		t.Errorf("a run on a full disk: %v, want 503 with a sentence", err)
	}
	if err := c.cancel(t.Context(), cancelled); err != nil {
		t.Errorf("cancel on a full disk: %v", err)
	}
	if err := eventually(t, func() error {
		if sink.taken()[delivered] == nil {
			return errors.New("a message that was accepted before is not delivered on a full disk")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if text := c.text(t, "/readyz"); !strings.HasPrefix(text, "ready, but the disk of the server is full") {
		t.Errorf("/readyz says %q", text)
	}
	if text := c.text(t, "/metrics"); !strings.Contains(text, "\nposthaste_store_full 1\n") {
		t.Error("/metrics does not say that the store is full")
	}

	disk.makeRoom(t)
	if err := eventually(t, func() error {
		_, err := c.publish(t.Context(), url, nil, "x")
		return err
	}); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestNoSpaceLeft uses up the last byte of a disk, with no reserve: the server stops with
// the reason, refuses to start as long as there is no room, and loses nothing.
func TestNoSpaceLeft(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	disk := newSmallDisk(t, 128)
	sink := newSink(t)
	s := launchServe(t, disk.data(), "--disk-reserve", "0B")
	c := newClient(s.url(t), testToken)
	disk.fill(t, 8<<20)
	acknowledged := publishUntilRefused(t, c, sink.url+"/"+answerOK)
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill(t)
		t.Fatalf("the server goes on without being able to write:\n%s", s.output)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 1 || !s.output.contains("no space left on device") {
		t.Errorf("the server ended with code %d, want 1 and the reason:\n%s", code, s.output)
	}

	s = launchServe(t, disk.data(), "--disk-reserve", "0B")
	select {
	case <-s.exited:
		if code := s.cmd.ProcessState.ExitCode(); code != 1 || !s.output.contains("no space left on device") {
			t.Errorf("a start on a full disk ended with code %d, want 1 and the reason:\n%s", code, s.output)
		}
	case <-s.output.ready: // what it found was enough to start, and perhaps for nothing else
		_ = s.cmd.Process.Kill()
		<-s.exited
		s.checkRaces(t)
	}

	disk.makeRoom(t)
	_, c = startServe(t, disk.data())
	for _, id := range acknowledged {
		if err := c.call(t.Context(), http.MethodGet, "/v2/messages/"+id, nil, "", nil); err != nil {
			t.Errorf("acknowledged message %s: %v", id, err)
		}
	}
	t.Logf("%d messages were acknowledged on the last 8 MiB", len(acknowledged))
}

// publishUntilRefused publishes large messages until one is not accepted, and returns
// the ids of those that were.
func publishUntilRefused(t *testing.T, c *client, url string) (acknowledged []string) {
	t.Helper()
	const clients, most = 4, 200
	body := strings.Repeat("x", 100<<10)
	var mu sync.Mutex
	var publishing sync.WaitGroup
	for range clients {
		publishing.Go(func() {
			for range most {
				id, err := c.publish(t.Context(), url, nil, body)
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
			t.Error("the disk does not become full")
		})
	}
	publishing.Wait()
	return acknowledged
}

// TestDirectoryInUse starts a second server on the directory of another one.
func TestDirectoryInUse(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	directory := t.TempDir()
	startServe(t, directory)
	second := launchServe(t, directory)
	<-second.exited
	if code := second.cmd.ProcessState.ExitCode(); code != 1 || !second.output.contains("the data directory is in use by another process") {
		t.Errorf("the second server ended with code %d, want 1 and the reason:\n%s", code, second.output)
	}
}

// TestDamagedDirectory flips a byte in the log of a server that was killed: the next one
// refuses to start and names the file.
func TestDamagedDirectory(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	directory := t.TempDir()
	sink := newSink(t)
	s := launchServe(t, directory)
	c := newClient(s.url(t), testToken)
	for range 10 {
		if _, err := c.publish(t.Context(), sink.url+"/"+answerOK, nil, "x"); err != nil {
			t.Fatal(err)
		}
	}
	s.kill(t)
	logs, err := filepath.Glob(filepath.Join(directory, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log in %s: %v", directory, err)
	}
	name := logs[len(logs)-1]
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content[100] ^= 1
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s = launchServe(t, directory)
	<-s.exited
	if code := s.cmd.ProcessState.ExitCode(); code != 1 || !s.output.contains(filepath.Base(name)) {
		t.Errorf("the server ended with code %d, want 1 and the name of %s:\n%s", code, name, s.output)
	}
}

// eventually asks again until there is no error, for as long as anybody has patience, and
// returns the last one.
func eventually(t *testing.T, ask func() error) (err error) {
	t.Helper()
	const pause = 100 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		if err = ask(); err == nil {
			return nil
		}
	}
	return err
}

// text returns what a path answers, whatever the status.
func (c *client) text(t *testing.T, path string) string {
	t.Helper()
	response, err := c.http.Get(c.base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
