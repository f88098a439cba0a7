package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"posthaste/internal/app"
)

// feed shows attempts when they have ended, a short line each. If nobody reads the lines it
// drops them: no delivery waits for a terminal.
type feed struct {
	out      io.Writer
	coloured bool
	attempts chan app.Attempt
	dropped  atomic.Int64
	stop     chan struct{}
	stopOnce sync.Once
	stopped  chan struct{}
}

// newFeed returns a feed that writes until it is closed.
func newFeed(out io.Writer) *feed {
	const lines = 1024
	f := &feed{
		out: out, coloured: hasColours(out),
		attempts: make(chan app.Attempt, lines), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go f.run()
	return f
}

// add shows an attempt. It does not block.
func (f *feed) add(attempt app.Attempt) {
	select {
	case f.attempts <- attempt:
	default:
		f.dropped.Add(1)
	}
}

// close writes what is left, for as long as somebody reads it.
func (f *feed) close() {
	f.stopOnce.Do(func() { close(f.stop) })
	select {
	case <-f.stopped:
	case <-time.After(time.Second):
	}
}

func (f *feed) run() {
	defer close(f.stopped)
	for {
		select {
		case attempt := <-f.attempts:
			f.write(attempt)
		case <-f.stop:
			for len(f.attempts) > 0 {
				f.write(<-f.attempts)
			}
			return
		}
	}
}

func (f *feed) write(attempt app.Attempt) {
	if n := f.dropped.Swap(0); n > 0 {
		_ = writeLine(f.out, "… %s not shown", counted(int(n), "attempt"))
	}
	_ = writeLine(f.out, "%s", attemptLine(attempt, f.coloured)) // the terminal may be gone
}

// attemptLine returns the line of an attempt: when, the new state of the message, the response
// status, how long it took, what was requested, the message, and what is wrong.
func attemptLine(a app.Attempt, coloured bool) string {
	status := 0
	if a.Outcome.Response != nil {
		status = a.Outcome.Response.Status
	}
	took := a.Outcome.Duration
	line := fmt.Sprintf("  %-4s %6s  %-6s %s", orDash(status), briefly(took), a.Message.Verb(), shown(a.Message.URL))
	state, at, id := fmt.Sprintf("%-9s", a.State), a.StartedAt.Add(took).Local().Format(time.TimeOnly), a.Message.ID.String()
	end := ""
	if a.Outcome.Error != "" {
		end = "  " + brief(shown(a.Outcome.Error))
	}
	if !a.NextAt.IsZero() {
		end += ", next in " + briefly(a.NextAt.Sub(a.StartedAt.Add(took)))
	}
	if coloured {
		at, id = faint.of(at), faint.of(id)
		state = stateColours[string(a.State)].of(state)
		end = stateColours[string(a.State)].of(end)
	}
	return at + "  " + state + line + "  " + id + end
}

// orDash returns a status, and a dash if there was no response.
func orDash(status int) string {
	if status == 0 {
		return "-"
	}
	return strconv.Itoa(status)
}

// briefly writes a length of time as people read it: with two or three digits.
func briefly(d time.Duration) string {
	unit := time.Minute
	switch {
	case d < 0:
		return "0s"
	case d < time.Millisecond:
		unit = time.Microsecond
	case d < time.Second:
		unit = time.Millisecond
	case d < 10*time.Second:
		unit = 100 * time.Millisecond
	case d < time.Hour:
		unit = time.Second
	}
	text := d.Round(unit).String()
	if d >= time.Minute { // 1m0s is 1m
		if rest, whole := strings.CutSuffix(text, "m0s"); whole {
			text = strings.TrimSuffix(rest+"m", "h0m")
			if text != rest+"m" {
				text += "h"
			}
		}
	}
	return text
}

// withoutAttempts is a handler of log lines that leaves out those of attempts.
type withoutAttempts struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withoutAttempts) Handle(ctx context.Context, line slog.Record) error {
	if line.Message == "attempt.finished" {
		return nil
	}
	return h.Handler.Handle(ctx, line)
}
