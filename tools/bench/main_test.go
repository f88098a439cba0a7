package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

var posthasteProgram = flag.String("posthaste", "", "the program that TestProgram measures")

// TestMain lets the test binary stand in for the posthaste program: started as
// a relay or as a server it is a relay, which takes and delivers messages like
// both of them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "--relay": // ADDRESS
			os.Exit(standIn(os.Args[2]))
		case "serve": // --listen ADDRESS …
			os.Exit(standIn(os.Args[3]))
		case "-listen": // the job queue
			os.Exit(standIn(os.Args[2]))
		case "fail":
			fmt.Println("the disk is full")
			os.Exit(1)
		case "environment":
			fmt.Println(os.Environ())
			os.Exit(1)
		}
	}
	// The race detector would make each stand-in linger for a second.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

func standIn(listen string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := RunRelay(ctx, listen, slog.Default()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
