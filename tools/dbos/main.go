// Command dbos relays messages as Posthaste does, with a queue of DBOS Transact and nothing else: a publish
// is answered when its workflow is enqueued, and the workflow makes the request. There is no log, no
// signature, no order and no limit. `bench cluster --dbos` compares with it.
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

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	listen      = flag.String("listen", "127.0.0.1:8090", "HOST:PORT to listen on")
	database    = flag.String("database-url", "", "PostgreSQL to keep workflows in")
	connections = flag.Int("connections", 20, "connections to the database, at most")
	workers     = flag.Int("workers", 200, "workflows that run at once, at most")
	poll        = flag.Duration("poll", 10*time.Millisecond, "how often the queue is looked at")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dbos:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(*database)
	if err != nil {
		return err
	}
	config.MaxConns = int32(*connections)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	defer pool.Close()
	all, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName: "relay", SystemDBPool: pool,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	d := &deliverer{http: &http.Client{Transport: &http.Transport{
		MaxConnsPerHost:     *workers,
		MaxIdleConnsPerHost: *workers,
		DisableCompression:  true,
	}}}
	dbos.RegisterWorkflow(all, d.deliver)
	if err := dbos.Launch(all); err != nil {
		return err
	}
	queue, err := dbos.RegisterQueue(all, "messages", dbos.WithWorkerConcurrency(*workers), dbos.WithQueueBasePollingInterval(*poll))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: &relay{all, queue, d}, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.Shutdown(context.Background())
	}
	return errors.Join(err, dbos.Shutdown(all, time.Minute))
}

// message is the input of a workflow.
type message struct {
	URL         string `json:"url"`
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`
}

// deliverer makes the requests.
type deliverer struct{ http *http.Client }

// deliver is the workflow of a message: one request, without a step of its own.
func (d *deliverer) deliver(ctx dbos.Context, m message) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", m.ContentType)
	response, err := d.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	if response.StatusCode/100 != 2 {
		return 0, errors.New(response.Status)
	}
	return response.StatusCode, nil
}

// relay takes POST /v2/publish/URL, and GET /readyz.
type relay struct {
	all   dbos.Context
	queue dbos.Queue
	*deliverer
}

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
		m := message{destination, request.Header.Get("Content-Type"), body}
		_, err = dbos.RunWorkflow(r.all, r.deliver, m, dbos.WithQueue(r.queue))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
