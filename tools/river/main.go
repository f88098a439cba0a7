// Command river relays messages as Posthaste does, with the job queue River and nothing
// else: a publish is answered when its job is committed, and a worker makes the request.
// There is no log, no signature, no order and no limit. `bench cluster --river`
// compares with it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var (
	listen      = flag.String("listen", "127.0.0.1:8090", "HOST:PORT to listen on")
	database    = flag.String("database-url", "", "PostgreSQL to keep jobs in")
	connections = flag.Int("connections", 20, "connections to the database, at most")
	workers     = flag.Int("workers", 200, "jobs that are worked at once, at most")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context) error {
	pool, err := connect(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := newClient(pool)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: &relay{client}, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.Shutdown(context.Background())
	}
	return errors.Join(err, client.Stop(context.Background()))
}

// connect connects to the database and brings River's tables up to date.
func connect(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(*database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(*connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// newClient returns a client that looks for jobs as often as River lets it.
func newClient(pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	kinds := river.NewWorkers()
	river.AddWorker(kinds, &deliverer{http: &http.Client{Transport: &http.Transport{
		MaxConnsPerHost:     *workers,
		MaxIdleConnsPerHost: *workers,
		DisableCompression:  true,
	}}})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     river.FetchCooldownMin,
		FetchPollInterval: 50 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: *workers}},
		Workers:           kinds,
	})
}

// message is the arguments of a job.
type message struct {
	URL         string `json:"url"`
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// Kind implements river.JobArgs.
func (message) Kind() string { return "deliver" }

// deliverer makes the requests.
type deliverer struct {
	river.WorkerDefaults[message]
	http *http.Client
}

// Work implements river.Worker.
func (d *deliverer) Work(ctx context.Context, job *river.Job[message]) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, job.Args.URL, bytes.NewReader(job.Args.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", job.Args.ContentType)
	response, err := d.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return errors.New(response.Status)
	}
	return nil
}

// relay takes POST /v2/publish/URL, and GET /readyz.
type relay struct{ client *river.Client[pgx.Tx] }

// ServeHTTP implements http.Handler.
func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path == "/readyz" {
		return // 200
	}
	destination, ok := strings.CutPrefix(request.RequestURI, "/v2/publish/")
	if !ok || request.Method != http.MethodPost {
		http.Error(w, "only POST /v2/publish/URL is known", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err == nil {
		_, err = r.client.Insert(request.Context(), message{destination, request.Header.Get("Content-Type"), body}, nil)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
