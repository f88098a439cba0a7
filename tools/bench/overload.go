package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// overloadScenario compares Posthaste with itself: a server that is asked for as much
// as it can do, and one that is asked for five times as much by clients that do not
// care how it fares. The second may refuse, by 429 or 503 with a Retry-After; what
// counts is how much it delivers all the same.
type overloadScenario struct{}

func (overloadScenario) name() string { return "overload" }

const (
	overload        = 5    // times what the server can do
	overloadClients = 2000 // connections, among which the load is divided
)

func (s overloadScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	peak, over := &condition{name: "peak"}, &condition{name: "overload"}
	defer peak.close()
	defer over.close()
	for _, c := range []*condition{peak, over} {
		if err := c.open(ctx, l); err != nil {
			return nil, err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		if err := s.round(ctx, l, peak, over); err != nil {
			return nil, err
		}
	}
	return []Result{{
		Scenario: s.name(),
		Baseline: peak.name,
		Subject:  over.name,
		Measures: compare(peak.rounds, over.rounds),
	}}, nil
}

// round measures what one server can do, and asks the other for a multiple of it.
func (s overloadScenario) round(ctx context.Context, l *lab, peak, over *condition) error {
	_, book, err := l.warmUpAndDeliver(ctx, peak.server, closedLoop{l.options.Clients, l.options.extent()})
	if err != nil {
		return err
	}
	peak.add(l, book)
	t := book.tally()
	flood := &surge{
		clients: overloadClients,
		rate:    max(1, int(overload*perSecond(t.delivered, t.window))),
		lasting: max(time.Second, t.window),
	}
	if book, err = l.deliver(ctx, over.server, flood); err != nil {
		return err
	}
	over.add(l, book)
	last := len(over.rounds) - 1
	over.rounds[last] = append(over.rounds[last], flood.readings()...)
	return nil
}

// surge is a load at a rate of messages per second, divided among clients. One that was
// not answered in time sends what it is late with at once, and never waits because it
// was refused.
type surge struct {
	clients, rate int
	lasting       time.Duration

	asked, refused atomic.Int64
}

func (s *surge) warmUp() load {
	return &surge{clients: s.clients, rate: s.rate, lasting: s.lasting / 10}
}

func (s *surge) apply(ctx context.Context, to address, book *account) error {
	start := time.Now()
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for number := range s.clients {
			spawn(func() error { return s.insist(ctx, number, start, to, book) })
		}
	})
}

// insist is one of the clients: it sends every message of its part when it is due, or
// as soon as it can.
func (s *surge) insist(ctx context.Context, number int, start time.Time, to address, book *account) error {
	c, err := dial(ctx, to)
	if err != nil {
		return err
	}
	defer c.close()
	interval := time.Second / time.Duration(s.rate)
	for due := time.Duration(number) * interval; due < s.lasting; due += time.Duration(s.clients) * interval {
		if time.Since(start) > s.lasting || !sleep(ctx, time.Until(start.Add(due))) {
			break
		}
		s.asked.Add(1)
		accepted, err := c.offer(book)
		if err != nil {
			return err
		}
		if !accepted {
			s.refused.Add(1)
		}
	}
	return nil
}

// readings returns how much was asked for, and what became of it.
func (s *surge) readings() []reading {
	offered := float64(s.rate) * s.lasting.Seconds()
	return []reading{
		measured("offered", "messages/s", float64(s.rate)),
		measured("refused", "messages/s", float64(s.refused.Load())/s.lasting.Seconds()),
		measured("kept waiting", "messages/s", (offered-float64(s.asked.Load()))/s.lasting.Seconds()),
	}
}

// offer is publish for a server that may refuse, and reports whether it accepted. A
// refusal that does not say when to come back is an error.
func (c *client) offer(book *account) (accepted bool, err error) {
	response, number, err := c.send(book)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		book.accept(number)
		accepted = true
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if _, err := strconv.Atoi(response.Header.Get("Retry-After")); err != nil {
			return false, fmt.Errorf("%w, without a time to come back", refusal(response))
		}
	default:
		return false, refusal(response)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return accepted, err
}

// CheckOverload returns an error if less than a part of the peak was delivered under
// overload, as the median of the rounds. A report without that scenario is fine.
func (r *Report) CheckOverload(least float64) error {
	for _, result := range r.Results {
		for _, m := range result.Measures {
			if result.Scenario == (overloadScenario{}).name() && m.Name == throughput && m.Ratio != nil && *m.Ratio < least {
				return fmt.Errorf("under overload %.2f of the peak was delivered: %g is the least", *m.Ratio, least)
			}
		}
	}
	return nil
}
