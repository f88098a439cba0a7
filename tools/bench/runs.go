package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// runsScenario compares Posthaste with itself: a server that is given workflow runs
// at a fixed rate, or an earlier build of it, and one that is given as many as it
// takes. A run of three steps is delivered four times; it counts as delivered when
// the server has taken its end.
type runsScenario struct{}

func (runsScenario) name() string { return "runs" }

func (s runsScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	workflow, err := newEndpoint(l.token, l.options.Steps)
	if err != nil {
		return nil, err
	}
	defer workflow.close()
	base, peak := &condition{name: "steady"}, &condition{name: "peak"}
	if l.options.Before != "" {
		base = &condition{name: beforeName, program: l.baseline()}
	}
	defer base.close()
	defer peak.close()
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		load := workflow.atRate(l.options.RunRate, l.options.extent())
		if l.options.Before != "" {
			load = workflow.byClients(l.options.Clients, l.options.extent())
		}
		if err := base.runs(ctx, l, workflow, load); err != nil {
			return nil, err
		}
		if err := peak.runs(ctx, l, workflow, workflow.byClients(l.options.Clients, l.options.extent())); err != nil {
			return nil, err
		}
	}
	return []Result{{
		Scenario: s.name(),
		Baseline: base.name,
		Subject:  peak.name,
		Measures: compare(base.rounds, peak.rounds),
	}}, nil
}

// trigger starts runs and enters each in a ledger.
type trigger func(ctx context.Context, book *account) error

// runs lets a server of its own carry out the runs of a trigger.
func (c *condition) runs(ctx context.Context, l *lab, workflow *endpoint, start trigger) error {
	if c.server == nil {
		if err := c.open(ctx, l); err != nil {
			return err
		}
	}
	book := newAccount()
	workflow.use(c.server.host, book)
	before, _ := processorTime(c.server.command.Process.Pid)
	if err := start(ctx, book); err != nil {
		return fmt.Errorf("%s: %w%s", c.name, err, c.server.lastWords())
	}
	if err := errors.Join(book.drain(ctx, patience+workflow.patience()), workflow.failure()); err != nil {
		return err
	}
	t := book.tally()
	after, _ := processorTime(c.server.command.Process.Pid)
	l.note("  %s: %s runs/s", c.name, decimal(perSecond(t.delivered, t.window)))
	c.rounds = append(c.rounds, append(append(t.readings(), c.server.memory()...),
		measured("processor time", "s/1000", (after-before).Seconds()/float64(t.delivered)*1000),
	))
	return nil
}

// endpoint is a workflow as an SDK would serve it: at each delivery it counts the
// steps it was given, and publishes the next one or the end.
type endpoint struct {
	token    string
	steps    int // of a run
	listener net.Listener
	server   *http.Server
	client   *http.Client

	host   string // of the server under test
	book   *account
	failed chan error // receives the first failure
}

func newEndpoint(token string, steps int) (*endpoint, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for deliveries: %w", err)
	}
	e := &endpoint{token: token, steps: steps, listener: listener, failed: make(chan error, 1)}
	e.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = e.server.Serve(listener) }() // until close
	return e, nil
}

func (e *endpoint) close() {
	_ = e.server.Close() // temporary; nothing to be done about it
	e.client.CloseIdleConnections()
}

func (e *endpoint) url() string { return "http://" + e.listener.Addr().String() + "/workflow" }

// use says which server the endpoint works with from now on. It is called only
// while no run goes on.
func (e *endpoint) use(host string, book *account) { e.host, e.book = host, book }

// patience is how much longer than a message a run may be on its way.
func (e *endpoint) patience() time.Duration { return time.Duration(e.steps) * 100 * time.Millisecond }

// failure returns the first failure to publish a step.
func (e *endpoint) failure() error {
	select {
	case err := <-e.failed:
		return err
	default:
		return nil
	}
}

// ServeHTTP takes a delivery.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Upstash-Workflow-Runid")
	if err := e.replay(r.Context(), id, r.Body); err != nil {
		select {
		case e.failed <- err:
		default: // the first is enough
		}
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Upstash-Workflow-Sdk-Version", "1")
	_, _ = io.WriteString(w, "{}") // if it gets lost the delivery is repeated
}

func (e *endpoint) replay(ctx context.Context, id string, body io.Reader) error {
	var list []json.RawMessage
	err := json.NewDecoder(body).Decode(&list)
	if errors.Is(err, io.EOF) { // a long list has to be fetched
		err = e.call(ctx, http.MethodGet, "/v2/workflows/runs/"+id, nil, &list)
	}
	if err != nil {
		return fmt.Errorf("read delivery: %w", err)
	}
	if step := len(list); step <= e.steps {
		return e.step(ctx, id, step)
	}
	if err := e.call(ctx, http.MethodDelete, "/v2/workflows/runs/"+id+"?cancel=false", nil, nil); err != nil {
		return err
	}
	if tag, number, ok := parseRunName(id); ok {
		e.book.deliver(tag, number)
	}
	return nil
}

func (e *endpoint) step(ctx context.Context, id string, number int) error {
	body := fmt.Sprintf(`{"stepId":%d,"stepName":"step %d","stepType":"Run","out":"%d","concurrent":1}`, number, number, number)
	return e.publish(ctx, id, "false", body)
}

// publish sends an item of a run.
func (e *endpoint) publish(ctx context.Context, id, init, body string) error {
	items, err := json.Marshal([]any{map[string]any{
		"destination": e.url(),
		"body":        body,
		"headers": map[string]string{
			"upstash-method":                               "POST",
			"content-type":                                 "application/json",
			"upstash-workflow-init":                        init,
			"upstash-workflow-runid":                       id,
			"upstash-workflow-url":                         e.url(),
			"upstash-feature-set":                          "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig",
			"upstash-workflow-sdk-version":                 "1",
			"upstash-forward-upstash-workflow-sdk-version": "1",
		},
	}})
	if err != nil {
		return err
	}
	return e.call(ctx, http.MethodPost, "/v2/batch", items, nil)
}

// call makes a request of the server and decodes the response, if into is not nil. Anything but a
// 2xx is an error.
func (e *endpoint) call(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+e.token)
	req.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return refusal(response)
	}
	if into != nil {
		return json.NewDecoder(response.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// start triggers one run, which is named after its place in the ledger.
func (e *endpoint) start(ctx context.Context, book *account) error {
	number := book.send()
	if err := e.publish(ctx, runName(book.tag, number), "true", "{}"); err != nil {
		return err
	}
	book.accept(number)
	return nil
}

// atRate triggers runs at fixed intervals.
func (e *endpoint) atRate(rate int, much extent) trigger {
	return func(ctx context.Context, book *account) error {
		interval := time.Second / time.Duration(rate)
		return together(ctx, func(ctx context.Context, spawn func(func() error)) {
			began := time.Now()
			for number := range much.count(rate) {
				if !sleep(ctx, time.Until(began.Add(time.Duration(number)*interval))) {
					return
				}
				spawn(func() error { return e.start(ctx, book) })
			}
		})
	}
}

// byClients triggers runs as fast as the answers come.
func (e *endpoint) byClients(clients int, much extent) trigger {
	return func(ctx context.Context, book *account) error {
		more := much.meter()
		return together(ctx, func(ctx context.Context, spawn func(func() error)) {
			for range clients {
				spawn(func() error {
					for more() {
						if err := e.start(ctx, book); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
}

const runPrefix = "bench"

func runName(tag, number uint64) string {
	return runPrefix + "-" + strconv.FormatUint(tag, 10) + "-" + strconv.FormatUint(number, 10)
}

// parseRunName reads what runName wrote.
func parseRunName(name string) (tag, number uint64, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 || parts[0] != runPrefix {
		return 0, 0, false
	}
	tag, tagErr := strconv.ParseUint(parts[1], 10, 64)
	number, numberErr := strconv.ParseUint(parts[2], 10, 64)
	return tag, number, tagErr == nil && numberErr == nil
}
