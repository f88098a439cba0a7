package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// load publishes messages at an address and enters each in the ledger. It stops
// at the first failure.
type load interface {
	apply(ctx context.Context, to address, book *account) error
	// warmUp is a small one of the same kind, to be applied before.
	warmUp() load
}

// extent is how much a load publishes: a number of messages, or else as many as
// it can for some time.
type extent struct {
	messages int
	duration time.Duration
}

// warmUp is a tenth of the extent.
func (e extent) warmUp() extent {
	return extent{messages: (e.messages + 9) / 10, duration: e.duration / 10}
}

// part returns one of n parts of the extent, whose sum is not below it.
func (e extent) part(of int) extent {
	return extent{messages: (e.messages + of - 1) / of, duration: e.duration / time.Duration(of)}
}

// meter returns a function that says whether one more message is to be sent. It
// may be called by many goroutines at once.
func (e extent) meter() func() bool {
	if e.messages > 0 {
		var asked atomic.Int64
		return func() bool { return asked.Add(1) <= int64(e.messages) }
	}
	end := time.Now().Add(e.duration)
	return func() bool { return time.Now().Before(end) }
}

// count is the number of messages at a rate per second, at least one.
func (e extent) count(rate int) int {
	if e.messages > 0 {
		return e.messages
	}
	return max(1, int(e.duration.Seconds()*float64(rate)))
}

// closedLoop is a load of clients that each wait for the answer to a message
// before they send the next.
type closedLoop struct {
	clients int
	extent
}

func (c closedLoop) warmUp() load { return closedLoop{c.clients, c.extent.warmUp()} }

func (c closedLoop) apply(ctx context.Context, to address, book *account) error {
	more := c.meter()
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for range c.clients {
			spawn(func() error { return publishWhile(ctx, more, to, book) })
		}
	})
}

func publishWhile(ctx context.Context, more func() bool, to address, book *account) error {
	c, err := dial(ctx, to)
	if err != nil {
		return err
	}
	defer c.close()
	for more() {
		if err := c.publish(book); err != nil {
			return err
		}
	}
	return nil
}

// openLoop is a load that sends a message at fixed intervals, whether or not
// earlier ones were answered: a server that is slow for a moment is not spared
// the messages of that moment.
type openLoop struct {
	rate int // messages a second
	extent
}

func (o openLoop) warmUp() load { return openLoop{o.rate, o.extent.warmUp()} }

func (o openLoop) apply(ctx context.Context, to address, book *account) error {
	interval := time.Second / time.Duration(o.rate)
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		idle := &pool{to: to}
		start := time.Now()
		for number := range o.count(o.rate) {
			due := start.Add(time.Duration(number) * interval)
			if !sleep(ctx, time.Until(due)) {
				return
			}
			spawn(func() error { return idle.publish(ctx, book) })
		}
	})
}

// endless is a load at a fixed rate that goes on until it is stopped.
func endless(rate int) openLoop {
	const longerThanAnything = 24 * time.Hour
	return openLoop{rate, extent{duration: longerThanAnything}}
}

// meanwhile lets something go on while work is done, and then stops it. It returns the
// failures of both.
func meanwhile(parent context.Context, beside func(context.Context) error, work func() error) error {
	ctx, stop := context.WithCancel(parent)
	stopped := make(chan error, 1)
	go func() {
		err := beside(ctx)
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		stopped <- err
	}()
	err := work()
	stop()
	return errors.Join(err, <-stopped)
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// together runs what start spawns at the same time and returns the first error
// when all have returned. The context it hands out ends with the first error.
func together(parent context.Context, start func(ctx context.Context, spawn func(func() error))) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var running sync.WaitGroup
	start(ctx, func(task func() error) {
		running.Go(func() {
			if err := task(); err != nil {
				cancel(err)
			}
		})
	})
	running.Wait()
	return context.Cause(ctx)
}

// pool holds connections that are not in use. They close with the context they
// were dialed in.
type pool struct {
	to   address
	mu   sync.Mutex
	idle []*client
}

// publish publishes a message. A server that has no room is asked again a second later,
// as it says, a few times.
func (p *pool) publish(ctx context.Context, book *account) error {
	const patience = 10 * time.Second
	for began := time.Now(); ; {
		err := p.tryPublish(ctx, book)
		if !errors.Is(err, errBusy) || time.Since(began) > patience || !sleep(ctx, time.Second) {
			return err
		}
	}
}

// tryPublish publishes on an idle connection, or on a new one if there is none.
func (p *pool) tryPublish(ctx context.Context, book *account) error {
	c := p.take()
	if c == nil {
		var err error
		if c, err = dial(ctx, p.to); err != nil {
			return err
		}
	}
	if err := c.publish(book); err != nil {
		c.close()
		return err
	}
	p.put(c)
	return nil
}

func (p *pool) put(c *client) {
	c.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// mostIdle is how long a connection may be idle: a server closes it after a while.
const mostIdle = 10 * time.Second

// take returns the connection that was used last, nil if all are in use or have been idle
// for too long.
func (p *pool) take() *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	if time.Since(c.used) > mostIdle {
		for _, c := range p.idle {
			c.close()
		}
		p.idle = nil
		return nil
	}
	p.idle = p.idle[:last]
	return c
}
