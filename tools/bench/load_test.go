package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func accepting(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func TestLoadPublishesItsMessages(t *testing.T) {
	fixed := extent{messages: 200}
	for _, test := range []struct {
		name string
		work load
		want int
	}{
		{"closed loop", closedLoop{8, fixed}, 200},
		{"closed loop, more clients than messages", closedLoop{300, fixed}, 200},
		{"closed loop, warm-up", closedLoop{8, fixed}.warmUp(), 20},
		{"open loop", openLoop{10_000, fixed}, 200},
		{"open loop, warm-up", openLoop{10_000, fixed}.warmUp(), 20},
		{"open loop for a time", openLoop{10_000, extent{duration: 10 * time.Millisecond}}, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int64
			book := newAccount()
			to := serveAddress(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				accepting(w, r)
			})
			if err := test.work.apply(t.Context(), to, book); err != nil {
				t.Fatal(err)
			}
			if sent, accepted := int(requests.Load()), book.tally().accepted; sent != test.want || accepted != test.want {
				t.Errorf("requests = %d, accepted = %d, want %d of both", sent, accepted, test.want)
			}
		})
	}
}

// The first request is refused for want of room, and its message is published later.
func TestOpenLoopAsksABusyServerAgain(t *testing.T) {
	var requests atomic.Int64
	book := newAccount()
	to := serveAddress(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			http.Error(w, "full", http.StatusServiceUnavailable)
			return
		}
		accepting(w, r)
	})
	if err := (openLoop{100, extent{messages: 3}}).apply(t.Context(), to, book); err != nil {
		t.Fatal(err)
	}
	if sent, accepted := requests.Load(), book.tally().accepted; sent != 4 || accepted != 3 {
		t.Errorf("requests = %d, accepted = %d, want 4 and 3", sent, accepted)
	}
}

func TestLoadStopsAtTheFirstFailure(t *testing.T) {
	for _, test := range []struct {
		name string
		work load
	}{
		{"closed loop", closedLoop{4, extent{duration: time.Hour}}},
		{"open loop", openLoop{1000, extent{duration: time.Hour}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := serveAddress(t, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "broken", http.StatusInternalServerError)
			})
			if err := test.work.apply(t.Context(), to, newAccount()); err == nil {
				t.Error("apply = nil, want the refusal")
			}
		})
	}
}

func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	const messages = 5
	var together sync.WaitGroup
	together.Add(messages)
	to := serveAddress(t, func(http.ResponseWriter, *http.Request) {
		together.Done()
		together.Wait() // nobody is answered before all have come
	})
	if err := (openLoop{1000, extent{messages: messages}}).apply(t.Context(), to, newAccount()); err != nil {
		t.Fatal(err)
	}
}

func TestExtentCount(t *testing.T) {
	for _, test := range []struct {
		name string
		extent
		rate, want int
	}{
		{"messages", extent{messages: 7, duration: time.Hour}, 100, 7},
		{"duration", extent{duration: 3 * time.Second}, 100, 300},
		{"at least one", extent{duration: time.Millisecond}, 100, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.count(test.rate); got != test.want {
				t.Errorf("count(%d) = %d, want %d", test.rate, got, test.want)
			}
		})
	}
}

func TestExtentWarmUp(t *testing.T) {
	if got, want := (extent{messages: 11}).warmUp(), (extent{messages: 2}); got != want {
		t.Errorf("warmUp = %v, want %v: a tenth, rounded up", got, want)
	}
	if got, want := (extent{duration: 10 * time.Second}).warmUp(), (extent{duration: time.Second}); got != want {
		t.Errorf("warmUp = %v, want %v", got, want)
	}
}

func TestMeterOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := extent{duration: time.Minute}.meter()
		time.Sleep(time.Minute - time.Nanosecond)
		if !more() {
			t.Error("more = false before the time is over")
		}
		time.Sleep(time.Nanosecond)
		if more() {
			t.Error("more = true when the time is over")
		}
	})
}

func TestTogetherReturnsTheFirstError(t *testing.T) {
	first := errors.New("first")
	err := together(t.Context(), func(ctx context.Context, spawn func(func() error)) {
		spawn(func() error { return first })
		spawn(func() error {
			<-ctx.Done()
			return errors.New("second")
		})
		spawn(func() error { return nil })
	})
	if !errors.Is(err, first) {
		t.Errorf("together = %v, want %v", err, first)
	}
}

// A connection that was not used for long is no longer used: the server may have closed it.
func TestPoolForgetsWhatIsIdle(t *testing.T) {
	connection := func(idle time.Duration) (c *client, closed func() bool) {
		ours, server := net.Pipe()
		t.Cleanup(func() { _ = server.Close() })
		return &client{conn: ours, release: func() bool { return true }, used: time.Now().Add(-idle)},
			func() bool { _, err := server.Read(make([]byte, 1)); return errors.Is(err, io.EOF) }
	}
	old, oldClosed := connection(time.Hour)
	older, olderClosed := connection(2 * time.Hour)
	fresh, _ := connection(0)
	p := &pool{idle: []*client{older, old, fresh}}
	if p.take() != fresh {
		t.Error("a connection that was just used is not taken")
	}
	if c := p.take(); c != nil || !oldClosed() || !olderClosed() {
		t.Errorf("taken: %v; want none, and those that were idle for an hour closed", c)
	}
	p.put(fresh)
	if p.take() != fresh {
		t.Error("a connection that was put back is not taken")
	}
}
