// Package app puts a server together: it is the one place that knows every
// part, and it holds no rule of its own. New opens, Start serves, Stop drains.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"posthaste/internal/api"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/telemetry"
	"posthaste/internal/workflow"
)

// App is a server. Make one with New.
type App struct {
	listeners  []net.Listener
	server     *http.Server
	engine     *engine.Engine
	workflows  *workflow.Service
	dispatcher *dispatch.Dispatcher
	store      store.Store
	log        *slog.Logger
	newToken   string

	endStreams context.CancelFunc // ends the answers that would never end

	serving sync.WaitGroup
	failed  chan error // receives the first listener that failed
	stop    func(context.Context) error
}

// New opens the store and puts the parts together. Nothing is served and nothing
// delivered before Start, but the listeners queue connections already.
func New(options Options) (*App, error) {
	a, err := open(options)
	if err != nil {
		closeAll(options.Listeners)
		return nil, err
	}
	return a, nil
}

func open(options Options) (*App, error) {
	if options.Log == nil {
		options.Log = slog.Default()
	}
	registry := newRegistry()
	observer := telemetry.NewObserver(options.Log, registry)
	s, err := openStore(options, observer)
	if err != nil {
		return nil, err
	}
	access, err := newAccess(context.Background(), s, options)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	telemetry.RegisterStore(registry, s, time.Now)
	telemetry.RegisterUsage(registry, s)
	a := &App{
		listeners: options.Listeners,
		store:     s,
		log:       options.Log,
		newToken:  access.newToken,
		failed:    make(chan error, 1),
	}
	a.dispatcher = newDispatcher(options, access.keyring)
	limits := newLimits(options)
	a.workflows = workflow.New(workflow.Options{
		Store:    s,
		Accepted: observer.Accepted,
		Logger:   options.Log,
		Limits:   limits,
	})
	a.engine = engine.New(engine.Options{
		Store:           s,
		Dispatcher:      a.dispatcher,
		Runs:            a.workflows,
		Observer:        observer,
		Logger:          options.Log,
		Concurrency:     options.Concurrency,
		Limits:          limits,
		Retention:       engine.Retention{Log: options.KeepLogs, DeadLetters: options.KeepDLQ, Runs: options.KeepRuns, Size: options.KeepBytes},
		DecodeOverrides: api.DecodeOverrides,
		ActionWorkers:   a.workflows.ActionWorkers(api.DecodeOverrides),
	})
	serving, endStreams := context.WithCancel(context.Background())
	a.endStreams = endStreams
	a.server = newServer(newHandler(serving, options, a.engine, a.workflows, s, access, registry), options.Log)
	a.stop = onceOnly(a.drain)
	return a, nil
}

// openStore opens the directory, and makes it readable for nobody else: it holds
// bodies and keys.
func openStore(options Options, observer lsm.Observer) (store.Store, error) {
	if err := os.MkdirAll(options.Data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	s, err := lsm.Open(options.Data, lsm.Options{
		CacheSize: options.CacheSize,
		Logger:    options.Log,
		Observer:  observer,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

// NewToken returns the token that was made by this start, to be shown once, or ""
// if there was one before.
func (a *App) NewToken() string { return a.newToken }

// Start begins to deliver and to serve. It returns at once.
func (a *App) Start() {
	a.engine.Start()
	a.workflows.Start()
	for _, listener := range a.listeners {
		a.serving.Go(func() { a.serve(listener) })
	}
}

func (a *App) serve(listener net.Listener) {
	err := a.server.Serve(refusingListener{listener})
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	select {
	case a.failed <- fmt.Errorf("serve %s: %w", listener.Addr(), err):
	default: // the first failure is enough
	}
}

// Wait returns nil when ctx ends, or why the server cannot go on before that.
func (a *App) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.failed:
		return err
	}
}

// Stop accepts no more requests and makes no more attempts, and waits for those
// in progress. When ctx ends first, they are cut off: requests that were not
// answered promised nothing, and messages whose attempts were abandoned are due
// again at the next start. Then it closes the store. Calling it again waits for
// the first call and returns what that did.
func (a *App) Stop(ctx context.Context) error { return a.stop(ctx) }

func (a *App) drain(ctx context.Context) error {
	var draining sync.WaitGroup
	draining.Go(func() { a.engine.Stop(ctx) })
	draining.Go(a.workflows.Stop)
	draining.Go(func() { a.finishRequests(ctx) })
	draining.Wait()
	a.serving.Wait()
	closeAll(a.listeners) // if they were never served
	a.dispatcher.Close()
	if err := a.store.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	a.log.Info("server.stopped")
	return nil
}

func (a *App) finishRequests(ctx context.Context) {
	a.endStreams()
	if err := a.server.Shutdown(ctx); err != nil {
		_ = a.server.Close() // cuts off those that remain
	}
}

// onceOnly makes a function that runs once and answers the same ever after.
func onceOnly(stop func(context.Context) error) func(context.Context) error {
	var once sync.Once
	var err error
	return func(ctx context.Context) error {
		once.Do(func() { err = stop(ctx) })
		return err
	}
}

func closeAll(listeners []net.Listener) {
	for _, listener := range listeners {
		listener.Close()
	}
}
