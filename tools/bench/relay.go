package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Relay is the least that a message delivery service can do, and so what one
// costs at least: it answers a publish when the message lies in memory, forwards
// it once, and forgets it.
//
// It has the API path of a publish and, for a fair comparison, the settings that
// Posthaste's dispatcher has for its connections.
type Relay struct {
	queue     chan *http.Request
	transport *http.Transport
	workers   sync.WaitGroup
	logger    *slog.Logger
}

const (
	relayQueue   = 1 << 16 // messages in memory; beyond, publishers wait
	relayWorkers = 512     // deliveries in flight, one connection each
)

// NewRelay returns a relay that forwards until Close.
func NewRelay(logger *slog.Logger) *Relay {
	r := &Relay{
		queue: make(chan *http.Request, relayQueue),
		transport: &http.Transport{
			ForceAttemptHTTP2:      true,
			MaxConnsPerHost:        relayWorkers,
			MaxIdleConnsPerHost:    relayWorkers,
			MaxIdleConns:           1024,
			IdleConnTimeout:        4 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		},
		logger: logger,
	}
	for range relayWorkers {
		r.workers.Go(r.work)
	}
	return r
}

// Close forwards what is queued and returns. No publish may follow.
func (r *Relay) Close() {
	close(r.queue)
	r.workers.Wait()
	r.transport.CloseIdleConnections()
}

// ServeHTTP takes POST /v2/publish/URL, and GET /readyz.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path == "/readyz" {
		return // 200
	}
	// The raw target: what the standard library makes of it is cleaned and has
	// lost slashes of the destination.
	destination, ok := strings.CutPrefix(req.RequestURI, "/v2/publish/")
	if !ok || req.Method != http.MethodPost {
		http.Error(w, "only POST /v2/publish/URL is known", http.StatusNotFound)
		return
	}
	forward, err := forwardRequest(destination, req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.queue <- forward
}

// forwardRequest copies a publish into the request to its destination.
func forwardRequest(destination string, publish *http.Request) (*http.Request, error) {
	target, err := url.Parse(destination)
	if err != nil {
		return nil, err
	}
	body, err := readAll(publish)
	if err != nil {
		return nil, err
	}
	// Deliveries outlive the publish, hence no context of it.
	forward, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	forward.URL, forward.Host = target, target.Host
	if kind := publish.Header.Get("Content-Type"); kind != "" {
		forward.Header.Set("Content-Type", kind)
	}
	return forward, nil
}

func readAll(req *http.Request) ([]byte, error) {
	if req.ContentLength < 0 {
		return io.ReadAll(req.Body)
	}
	body := make([]byte, req.ContentLength)
	_, err := io.ReadFull(req.Body, body)
	return body, err
}

func (r *Relay) work() {
	for forward := range r.queue {
		if err := r.forward(forward); err != nil {
			r.logger.Error("forward.failed", "error", err)
		}
	}
}

func (r *Relay) forward(req *http.Request) error {
	response, err := r.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// RunRelay serves a relay at an address until ctx ends, and returns when it has
// forwarded everything it took.
func RunRelay(ctx context.Context, listen string, logger *slog.Logger) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	relay := NewRelay(logger)
	defer relay.Close()
	server := &http.Server{Handler: relay}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() { stopped <- server.Shutdown(context.Background()) })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
