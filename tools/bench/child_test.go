package main

import (
	"context"
	"os"
	"strings"
	"testing"
)

// testProgram is the test binary with the arguments, and perhaps an address.
func testProgram(args ...string) program {
	return program{"test", func(listen, _ string) []string {
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "ADDRESS", listen)
		}
		return args
	}}
}

func spawnTest(t *testing.T, ctx context.Context) *child {
	t.Helper()
	c, err := spawn(ctx, os.Args[0], testProgram("serve", "--listen", "ADDRESS"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func TestChildRunsUntilItIsToldToEnd(t *testing.T) {
	c := spawnTest(t, t.Context())
	if c.readyAfter <= 0 {
		t.Errorf("readyAfter = %s, want the time it took to start", c.readyAfter)
	}
	if !c.answersReady(t.Context()) {
		t.Error("a child that was started is not ready")
	}
	if err := c.end(); err != nil {
		t.Errorf("end = %v, want nil", err)
	}
	if c.processorTime() <= 0 {
		t.Errorf("processorTime = %s, want some", c.processorTime())
	}
}

func TestChildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := spawnTest(t, ctx)
	cancel()
	<-c.exited
}

func TestEndOfAChildThatWasKilledFails(t *testing.T) {
	c := spawnTest(t, t.Context())
	c.kill()
	if err := c.end(); err == nil {
		t.Error("end = nil, want an error that says how the program ended")
	}
}

func TestSpawnTellsWhatAProgramWroteThatFailed(t *testing.T) {
	_, err := spawn(t.Context(), os.Args[0], testProgram("fail"), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("spawn = %v, want an error with the program's last words", err)
	}
}

func TestSpawnHidesOurSettings(t *testing.T) {
	t.Setenv("POSTHASTE_LOG_LEVEL", "debug")
	t.Setenv("BENCH_TEST_OTHER", "kept")
	_, err := spawn(t.Context(), os.Args[0], testProgram("environment"), t.TempDir())
	if err == nil || strings.Contains(err.Error(), "POSTHASTE_LOG_LEVEL") || !strings.Contains(err.Error(), "BENCH_TEST_OTHER=kept") {
		t.Errorf("environment of a child: %v, want no setting of ours and everything else", err)
	}
}

func TestSpawnOfAMissingProgram(t *testing.T) {
	if _, err := spawn(t.Context(), "/does/not/exist", testProgram(), t.TempDir()); err == nil {
		t.Error("spawn = nil, want an error")
	}
}
