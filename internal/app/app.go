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
	"sync"
	"sync/atomic"
	"time"

	"posthaste/internal/alert"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
	"posthaste/internal/workflow"
)

// Version is the version of this program, without a leading v. A release is made
// by changing it.
const Version = "0.1.0"

// App is a server. Make one with New.
type App struct {
	listeners  []net.Listener
	server     *http.Server
	all        *connections
	front      *front
	handler    http.Handler // what comes behind the front when serving starts
	engine     *engine.Engine
	workflows  *workflow.Service
	dispatcher *dispatch.Dispatcher
	store      store.Store
	exporter   *telemetry.Exporter
	traces     *telemetry.Traces // nil: none
	alerter    *alert.Alerter    // nil: none
	log        *slog.Logger
	made       Made

	control *control // nil on a database, and where no socket can be made

	lead       time.Duration      // how long the server still serves after Stop was called
	stopping   atomic.Bool        // Stop was called
	endStreams context.CancelFunc // ends the answers that would never end

	serveOnce sync.Once
	serving   sync.WaitGroup
	failed    chan error // receives the first listener that failed
	stop      func(context.Context) error
}

// New opens the store and puts the parts together. Nothing is delivered before Start.
// Nor is anything served: the listeners queue connections. Only while a database is
// waited for, until ctx ends, requests are answered: with 503, but for /healthz.
func New(ctx context.Context, options Options) (*App, error) {
	options = options.withDefaults()
	limitMemory(options.MemoryLimit)
	relaxCollector()
	a := &App{
		listeners: options.Listeners,
		all:       newConnections(options.MaxConnections),
		front:     &front{},
		lead:      options.ShutdownLead,
		failed:    make(chan error, 1),
	}
	a.server = newServer(a.sendingAway(a.front), a.all, options.Log)
	a.stop = onceOnly(a.drain)
	if err := a.open(ctx, options); err != nil {
		_ = a.server.Close()
		a.serving.Wait()
		closeAll(options.Listeners)
		if a.exporter != nil {
			a.finishExport(ctx, exportTime)
		}
		return nil, err
	}
	if len(options.DatabaseURLs) == 0 {
		addSyncThread()
	}
	return a, nil
}

func (a *App) open(ctx context.Context, options Options) error {
	if err := options.Alerts.Check(options.Destinations); err != nil {
		return err
	}
	if err := a.startExport(ctx, &options); err != nil {
		return err
	}
	registry := newRegistry()
	observer, s, err := a.openStore(ctx, &options, registry)
	if err != nil {
		return err
	}
	access, err := newAccess(ctx, s, options)
	if err == nil {
		err = checkCopied(ctx, s)
	}
	if err == nil {
		err = a.exportAll(ctx, observer, registry)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	a.startControl(options, s)
	now := clockOf(s)
	telemetry.RegisterBuild(registry, Version)
	telemetry.RegisterStore(registry, s, now, options.MetricsQueues)
	telemetry.RegisterUsage(registry, s)
	telemetry.RegisterConnections(registry, a.all.count)
	a.store, a.log, a.made = s, options.Log, access.made
	a.dispatcher = newDispatcher(options, access.keyring, a.attemptContext())
	limits := newLimits(options)
	a.workflows = workflow.New(workflow.Options{
		Store:    s,
		Accepted: observer.Accepted,
		Moved:    observer.RunMoved,
		Traces:   a.contexts(),
		Logger:   options.Log,
		Now:      now,
		Limits:   limits,
		OwnSlot:  ownSlotOf(s),
	})
	a.engine = engine.New(engine.Options{
		Store:         s,
		Dispatcher:    a.dispatcher,
		Runs:          a.workflows,
		Observer:      a.withAlerts(options, observer),
		Missed:        observer.TicksMissed,
		Traces:        a.contexts(),
		Logger:        options.Log,
		Concurrency:   options.Concurrency,
		Limits:        limits,
		Now:           now,
		OwnSlot:       ownSlotOf(s),
		Retention:     options.Keep.retention(),
		UserRetention: options.retentionFor(),
		ActionWorkers: a.workflows.ActionWorkers(),
	})
	serving, endStreams := context.WithCancel(context.Background())
	a.endStreams = endStreams
	a.handler = newHandler(serving, options, a.engine, a.workflows, s, access, newGates(options), registry, a.stopping.Load)
	return nil
}

// Made returns the secrets that were made by this start.
func (a *App) Made() Made { return a.made }

// Start begins to deliver and to serve. It returns at once.
func (a *App) Start() {
	a.engine.Start()
	a.workflows.Start()
	if a.alerter != nil {
		a.alerter.Start()
	}
	a.front.open(a.handler)
	a.serveAll()
}

// serveAll serves the listeners, unless that was begun before.
func (a *App) serveAll() {
	a.serveOnce.Do(func() {
		for _, listener := range a.listeners {
			a.serving.Go(func() { a.serve(listener) })
		}
	})
}

func (a *App) serve(listener net.Listener) {
	err := a.server.Serve(limitedListener{listener, a.all})
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	select {
	case a.failed <- fmt.Errorf("serve %s: %w", listener.Addr(), err):
	default: // the first failure is enough
	}
}

// Wait returns nil when ctx ends, or before that why the server must stop.
func (a *App) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.failed:
		return err
	}
}

// Stop first says that the server is not ready, and lets it serve for Options.ShutdownLead:
// time for load balancers to notice. Then it accepts no more requests, waits for those in
// progress and for attempts in flight, and closes the store. The engine delivers what is
// due meanwhile; see engine.Engine.Stop. When ctx ends first, what is in progress is cut
// off: requests that were not answered promised nothing, and messages whose attempts were
// abandoned are due again at the next start. Calling it again waits for the first call and
// returns what that did.
func (a *App) Stop(ctx context.Context) error { return a.stop(ctx) }

func (a *App) drain(ctx context.Context) error {
	a.log.Info("server.stopping", "lead", a.lead)
	a.stopping.Store(true)
	if err := handOver(ctx, a.store); err != nil { // they notice when this node has left
		a.log.Warn("server.stopping", "error", err)
	}
	select {
	case <-time.After(a.lead):
	case <-ctx.Done():
	}
	var draining sync.WaitGroup
	draining.Go(func() { a.engine.Stop(ctx) })
	draining.Go(func() { a.finishRequests(ctx) })
	draining.Wait()
	a.workflows.Stop()
	if a.alerter != nil {
		a.alerter.Stop()
	}
	a.serving.Wait()
	closeAll(a.listeners) // if they were never served
	a.dispatcher.Close()
	a.finishExport(ctx, exportTime)
	if a.control != nil {
		a.control.close(ctx)
	}
	if err := a.store.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	a.log.Info("server.stopped")
	return nil
}

// sendingAway asks clients, while the server stops, to make their next request on a new
// connection, which may be one to another server.
func (a *App) sendingAway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
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
