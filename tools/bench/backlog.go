package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// backlogScenario compares Posthaste with itself: a server with an empty store,
// and one that holds a backlog of messages for the same destination which are not
// due for long, and maybe sleeping runs and a history of finished messages. Both take the same load in turn;
// then both are killed, and their next starts compared.
type backlogScenario struct{}

func (backlogScenario) name() string { return "backlog" }

const (
	backlogDelay   = 24 * time.Hour
	backlogClients = 128 // the more publish together, the fewer syncs it takes
)

func (s backlogScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	empty, full := &condition{name: "empty"}, &condition{name: "backlog"}
	defer empty.close()
	defer full.close()
	if err := s.compare(ctx, l, empty, full); err != nil {
		return nil, err
	}
	return []Result{{
		Scenario: s.name(),
		Baseline: empty.name,
		Subject:  full.name,
		Measures: compare(empty.rounds, full.rounds),
	}}, nil
}

func (s backlogScenario) compare(ctx context.Context, l *lab, empty, full *condition) error {
	both := []*condition{empty, full}
	if err := full.finish(ctx, l); err != nil {
		return err
	}
	for _, c := range both {
		if err := c.open(ctx, l); err != nil {
			return err
		}
	}
	if err := full.fill(ctx, l); err != nil {
		return err
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for _, c := range both {
			if err := c.round(ctx, l); err != nil {
				return err
			}
		}
	}
	for _, c := range both {
		if err := c.restart(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// condition is a server in one of the conditions that are compared, and what was
// found there.
type condition struct {
	name    string
	program program // zero: Posthaste with its defaults
	dir     string
	server  *child
	rounds  [][]reading
}

// finish writes a history of messages that were delivered, and runs that sleep, if they are
// asked for, into the store that the server will have.
func (c *condition) finish(ctx context.Context, l *lab) (err error) {
	if c.dir, err = l.place(); err != nil {
		return err
	}
	began := time.Now()
	if l.options.Sleeping > 0 {
		sleep := func(tx store.RunTx) error { return sleepingRun(tx, l.sink.url()) }
		if err := fillRuns(ctx, filepath.Join(c.dir, dataDir), l.options.Sleeping, sleep); err != nil {
			return fmt.Errorf("store sleeping runs: %w", err)
		}
		l.note("  stored %d sleeping runs in %s", l.options.Sleeping, time.Since(began).Round(time.Second))
	}
	if l.options.Finished == 0 {
		return nil
	}
	h := &history{user: benchingUser, size: l.options.Size, until: began, span: logSpan, total: l.options.Finished}
	if _, err := h.write(ctx, filepath.Join(c.dir, dataDir)); err != nil {
		return fmt.Errorf("store finished messages: %w", err)
	}
	l.note("  stored %d finished messages in %s", h.total, time.Since(began).Round(time.Second))
	return nil
}

// sleepingRun writes a run that waits for the end of its first step.
func sleepingRun(tx store.RunTx, destination string) error {
	var ids [2]posthaste.MessageID
	for i := range ids {
		var err error
		if ids[i], err = posthaste.NewMessageID(tx.Now(), rand.Reader); err != nil {
			return err
		}
	}
	at := tx.NextPosition(0)
	run := &posthaste.Run{
		RunRef:      posthaste.RunRef{ID: "wfr_" + rand.Text(), CreatedAt: at.Time(), Position: at, URL: destination},
		User:        benchingUser,
		CallerIP:    "192.0.2.7",
		FirstID:     ids[0],
		Settings:    posthaste.Settings{Header: http.Header{"Content-Type": {"application/json"}}, Labels: []string{"bench"}},
		RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
	}
	tx.Start(run)
	if err := tx.Append(run, posthaste.RunEntry{MessageID: ids[0], CallType: posthaste.CallStep, Body: []byte(`{"n":1}`)}, nil); err != nil {
		return err
	}
	m := &posthaste.Message{
		ID: ids[1], User: run.User, URL: run.URL, CreatedAt: tx.Now(), NotBefore: tx.Now().Add(backlogDelay),
		Run:      &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep},
		Settings: run.Settings,
	}
	m.SetSlot(nil)
	const step = `{"stepId":1,"stepName":"sleep","stepType":"SleepFor","sleepFor":86400,"concurrent":1}`
	return tx.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: posthaste.CallStep, Body: []byte(step)}, m)
}

// open starts the server, on a store of its own unless it has one.
func (c *condition) open(ctx context.Context, l *lab) (err error) {
	if c.dir == "" {
		if c.dir, err = l.place(); err != nil {
			return err
		}
	}
	if c.program.args == nil {
		c.program = l.server()
	}
	c.server, err = l.start(ctx, c.program, c.dir)
	return err
}

// fill publishes the backlog.
func (c *condition) fill(ctx context.Context, l *lab) error {
	book := newAccount()
	work := closedLoop{backlogClients, extent{messages: l.options.Backlog}}
	if err := work.apply(ctx, l.address(c.server, backlogDelay), book); err != nil {
		return fmt.Errorf("store the backlog: %w%s", err, c.server.lastWords())
	}
	took := book.elapsed()
	l.note("  stored %d delayed messages in %s", l.options.Backlog, took.Round(time.Second))
	c.rounds = append(c.rounds, []reading{
		measured("storing the backlog", "messages/s", perSecond(l.options.Backlog, took)),
	})
	return nil
}

// round applies the load after a warm-up.
func (c *condition) round(ctx context.Context, l *lab) error {
	work := closedLoop{l.options.Clients, l.options.extent()}
	_, book, err := l.warmUpAndDeliver(ctx, c.server, work)
	if err == nil {
		c.add(l, book)
	}
	return err
}

// add notes what a load came to.
func (c *condition) add(l *lab, book *account) {
	t := book.tally()
	l.note("  %s: %s messages/s", c.name, decimal(perSecond(t.delivered, t.window)))
	c.rounds = append(c.rounds, append(t.readings(), c.server.memory()...))
}

// restart kills the server, starts it again and notes how long that took.
func (c *condition) restart(ctx context.Context, l *lab) (err error) {
	c.server.kill()
	c.server, err = l.start(ctx, l.server(), c.dir)
	if err != nil {
		return fmt.Errorf("%s, after kill: %w", c.name, err)
	}
	c.rounds = append(c.rounds, []reading{
		measured("start after kill", "ms", milliseconds(c.server.readyAfter)),
	})
	for _, memory := range c.server.memory() {
		memory.name += " after kill"
		c.rounds = append(c.rounds, []reading{memory})
	}
	return nil
}

// close ends the server and deletes its store.
func (c *condition) close() {
	if c.server != nil {
		c.server.kill()
	}
	_ = os.RemoveAll(c.dir) // the lab's directory goes later in any case
}
