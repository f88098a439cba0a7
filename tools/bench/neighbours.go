package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// neighboursScenario compares Posthaste with itself: a server whose destination is
// alone, and one that has two bad neighbours, one that hangs and one that answers
// 500 slowly. Both deliver at the fixed rate of the latency scenario.
type neighboursScenario struct{}

func (neighboursScenario) name() string { return "neighbours" }

const (
	hangingMessages = 2000                   // published to the destination that hangs, before the load
	failingRate     = 50                     // messages a second to the one that fails, during the load
	failingAfter    = 500 * time.Millisecond // how long that one takes to answer
)

func (s neighboursScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	alone, beside := &condition{name: "alone"}, &condition{name: "beside"}
	defer alone.close()
	defer beside.close()
	bad, err := newNeighbours()
	if err != nil {
		return nil, err
	}
	defer bad.close()
	if err := s.compare(ctx, l, alone, beside, bad); err != nil {
		return nil, err
	}
	return []Result{{
		Scenario: s.name(),
		Baseline: alone.name,
		Subject:  beside.name,
		Measures: compare(alone.rounds, beside.rounds),
	}}, nil
}

func (s neighboursScenario) compare(ctx context.Context, l *lab, alone, beside *condition, bad *neighbours) error {
	for _, c := range []*condition{alone, beside} {
		if err := c.open(ctx, l); err != nil {
			return err
		}
	}
	if err := bad.hang(ctx, l, beside.server); err != nil {
		return err
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		if err := alone.steady(ctx, l); err != nil {
			return err
		}
		err := bad.meanwhile(ctx, l, beside.server, func() error { return beside.steady(ctx, l) })
		if err != nil {
			return err
		}
	}
	return nil
}

// steady applies the fixed rate after a warm-up.
func (c *condition) steady(ctx context.Context, l *lab) error {
	_, book, err := l.warmUpAndDeliver(ctx, c.server, openLoop{l.options.Rate, l.options.extent()})
	if err != nil {
		return err
	}
	c.rounds = append(c.rounds, append(book.tally().readings(), c.server.memory()...))
	return nil
}

// neighbours are two destinations that nobody wants beside one's own.
type neighbours struct {
	hanging, failing net.Listener
	server           *http.Server
}

func newNeighbours() (*neighbours, error) {
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	failing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, hanging.Close())
	}
	n := &neighbours{hanging: hanging, failing: failing}
	n.server = &http.Server{Handler: http.HandlerFunc(n.answer), ReadHeaderTimeout: time.Minute}
	for _, listener := range []net.Listener{hanging, failing} {
		go func() { _ = n.server.Serve(listener) }() // until close
	}
	return n, nil
}

func (n *neighbours) close() { _ = n.server.Close() }

// answer answers nothing to those who come to the one that hangs.
func (n *neighbours) answer(w http.ResponseWriter, r *http.Request) {
	if r.Host == n.hanging.Addr().String() {
		_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is noticed
		<-r.Context().Done()
		return
	}
	time.Sleep(failingAfter)
	w.WriteHeader(http.StatusInternalServerError)
}

// address is where a server takes messages for one of the two.
func (n *neighbours) address(l *lab, c *child, to net.Listener) address {
	a := l.address(c, 0)
	a.destinations = []string{"http://" + to.Addr().String() + "/"}
	return a
}

// hang publishes to the destination that hangs.
func (n *neighbours) hang(ctx context.Context, l *lab, c *child) error {
	work := closedLoop{l.options.Clients, extent{messages: hangingMessages}}
	if err := work.apply(ctx, n.address(l, c, n.hanging), newAccount()); err != nil {
		return fmt.Errorf("publish to the destination that hangs: %w%s", err, c.lastWords())
	}
	return nil
}

// meanwhile publishes to the destination that fails while work goes on.
func (n *neighbours) meanwhile(ctx context.Context, l *lab, c *child, work func() error) error {
	return meanwhile(ctx, func(ctx context.Context) error {
		return endless(failingRate).apply(ctx, n.address(l, c, n.failing), newAccount())
	}, work)
}
