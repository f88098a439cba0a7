package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"posthaste/internal/app"
)

// runServer opens a server, calls ready when it serves, and drains it for at
// most patience after the first SIGINT or SIGTERM.
func runServer(options app.Options, patience time.Duration, ready func(*app.App) error) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := app.New(ctx, options)
	if errors.Is(err, context.Canceled) {
		return nil // there was nothing to drain yet
	}
	if err != nil {
		return err
	}
	server.Start()
	failure := ready(server)
	if failure == nil {
		failure = server.Wait(ctx)
	}
	draining, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(failure, server.Stop(draining))
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The
// second ends the program at once: whoever sends it does not want to wait.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
