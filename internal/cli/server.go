package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"posthaste/internal/app"
)

// runServer opens a server, calls ready when it serves, and stops it after the first
// SIGINT, SIGTERM or SIGHUP: for at most patience, after the lead that the options name. It
// calls atEnd before it returns, and also when a second signal ends the program.
func runServer(options app.Options, patience time.Duration, ready func(*app.App) error, atEnd func() error) error {
	signal.Ignore(syscall.SIGPIPE) // a pipe that nobody reads is an error of the write, and no end in the middle of things
	ctx, forget := untilSignals(atEnd)
	defer forget()
	err := serveUntil(ctx, options, patience, ready)
	return errors.Join(err, atEnd())
}

func serveUntil(ctx context.Context, options app.Options, patience time.Duration, ready func(*app.App) error) error {
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
	stopping, cancel := context.WithTimeout(context.Background(), options.ShutdownLead+patience)
	defer cancel()
	return errors.Join(failure, server.Stop(stopping))
}

// untilSignal is untilSignals for commands that leave nothing to be done at their end.
func untilSignal() (context.Context, context.CancelFunc) { return untilSignals(nothingAtEnd) }

// untilSignals returns a context that ends at the first SIGINT, SIGTERM or SIGHUP. A SIGINT
// or SIGTERM after that calls atEnd and ends the program: the sender does not want to
// wait. SIGHUP does not end it: a closing terminal may send it twice. A SIGHUP that was ignored
// at the start, as by nohup, stays ignored.
func untilSignals(atEnd func() error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan os.Signal, 1)
	again := make(chan os.Signal, 2)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(first, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-first:
		case <-again:
		}
		cancel()
		<-again
		_ = atEnd()
		os.Exit(exitFailure)
	}()
	return ctx, func() {
		signal.Stop(first)
		signal.Stop(again)
		cancel()
	}
}

// nothingAtEnd is for servers that leave what they have.
func nothingAtEnd() error { return nil }
