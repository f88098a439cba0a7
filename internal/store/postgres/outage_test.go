package postgres_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// The database goes and comes back: calls are refused at once meanwhile, and the log has one line
// for each, however many calls there were.
func TestAnOutageIsTwoLines(t *testing.T) {
	c, url := newCutter(t, emptyDatabase(t))
	log := &lines{}
	s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	rules := newRuled(s)
	accept(t, rules, start)
	c.stop(true) // for so short that it may go unnoticed
	c.stop(false)
	await(t, "answer on new connections", func() bool { return acceptOne(t.Context(), rules, newMessage(start)) == nil })
	if log.count("database.lost") > 0 {
		t.Errorf("connections that were cut are taken for an outage:\n%s", &log.text)
	}
	c.stop(true)
	await(t, "a line about the outage", func() bool { return log.count("database.lost") > 0 })
	const calls = 1000
	began := time.Now()
	for range calls {
		if err := acceptOne(t.Context(), rules, newMessage(start)); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Accept = %v, want ErrUnavailable", err)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("%d calls were refused in %v, want at once", calls, took)
	}
	c.stop(false)
	await(t, "a line about its end", func() bool { return log.count("database.back") > 0 })
	accept(t, rules, start)
	if log.count("") != 3 || log.count("node.joined") != 1 || log.count("database.lost") != 1 || log.count("refused=1000") != 1 {
		t.Errorf("the log has not the three lines that it should have:\n%s", &log.text)
	}
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// count returns how many lines have a text.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// await returns when something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v there is no %s", patience, what)
		}
	}
}
