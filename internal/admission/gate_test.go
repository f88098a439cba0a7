package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"posthaste"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crowd asks for things and notes who was let in, in order.
type crowd struct {
	*testing.T
	gate *Gate

	mu      sync.Mutex
	entered []string
	refused map[string]posthaste.Code
}

func newCrowd(t *testing.T, options Options) *crowd {
	return &crowd{T: t, gate: New(options), refused: make(map[string]posthaste.Code)}
}

// ask asks in the name of the user that the label begins with, "ann 1" for ann, and
// waits until it is let in or stands in line.
func (c *crowd) ask(label string, amount int64) {
	user, _, _ := strings.Cut(label, " ")
	go func() {
		err := c.gate.Enter(c.Context(), user, amount)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.refused[label] = posthaste.ErrorCode(err)
			return
		}
		c.entered = append(c.entered, label)
	}()
	synctest.Wait()
}

// leave gives something back and waits until others have taken it.
func (c *crowd) leave(user string, amount int64) {
	c.gate.Leave(user, amount)
	synctest.Wait()
}

func (c *crowd) shrink(user string, amount, rest int64) {
	c.gate.Shrink(user, amount, rest)
	synctest.Wait()
}

func (c *crowd) wantEntered(want ...string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := fmt.Sprint(c.entered); got != fmt.Sprint(want) {
		c.Errorf("let in %v, want %v", c.entered, want)
	}
	c.entered = nil
}

func TestTurns(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		run     func(c *crowd)
	}{
		{"who finds room goes on at once", Options{Capacity: 2, Share: 2}, func(c *crowd) {
			c.ask("ann 1", 1)
			c.ask("ann 2", 1)
			c.wantEntered("ann 1", "ann 2")
		}},
		{"a line is first in, first out", Options{Capacity: 1, Share: 1}, func(c *crowd) {
			for _, label := range []string{"ann 1", "ann 2", "ann 3"} {
				c.ask(label, 1)
			}
			c.leave("ann", 1)
			c.leave("ann", 1)
			c.wantEntered("ann 1", "ann 2", "ann 3")
		}},
		{"lines take turns, however long they are", Options{Capacity: 1, Share: 1}, func(c *crowd) {
			for _, label := range []string{"ann 1", "ann 2", "ann 3", "ann 4", "bob 1", "bob 2", "eve 1"} {
				c.ask(label, 1)
			}
			for _, user := range []string{"ann", "ann", "bob", "eve", "ann", "bob"} {
				c.leave(user, 1)
			}
			c.wantEntered("ann 1", "ann 2", "bob 1", "eve 1", "ann 3", "bob 2", "ann 4")
		}},
		{"a share is left to others", Options{Capacity: 4, Share: 3}, func(c *crowd) {
			for _, label := range []string{"ann 1", "ann 2", "ann 3", "ann 4", "bob 1"} {
				c.ask(label, 1)
			}
			c.wantEntered("ann 1", "ann 2", "ann 3", "bob 1")
			c.leave("ann", 1)
			c.wantEntered("ann 4")
		}},
		{"nobody overtakes what is large", Options{Capacity: 3, Share: 3}, func(c *crowd) {
			c.ask("ann 1", 2)
			c.ask("bob large", 3)
			c.ask("eve small", 1)
			c.wantEntered("ann 1")
			c.leave("ann", 2)
			c.wantEntered("bob large")
			c.leave("bob", 3)
			c.wantEntered("eve small")
		}},
		{"more than a share waits for all of it", Options{Capacity: 4, Share: 3}, func(c *crowd) {
			c.ask("ann huge", 100)
			c.ask("bob 1", 1)
			c.ask("ann 1", 1)
			c.wantEntered("ann huge", "bob 1")
			c.leave("ann", 100)
			c.wantEntered("ann 1")
		}},
		{"what is not needed lets others in", Options{Capacity: 10, Share: 10}, func(c *crowd) {
			c.ask("ann 1", 8)
			c.ask("bob 1", 8)
			c.shrink("ann", 8, 2)
			c.wantEntered("ann 1", "bob 1")
			c.leave("ann", 2)
			c.leave("bob", 8)
			c.ask("eve 1", 10)
			c.wantEntered("eve 1")
		}},
		{"what is not needed of more than a share is beyond it first", Options{Capacity: 10, Share: 6}, func(c *crowd) {
			c.ask("ann huge", 100)
			c.shrink("ann", 100, 50)
			c.ask("ann 1", 1)
			c.wantEntered("ann huge")
			c.shrink("ann", 50, 5)
			c.wantEntered("ann 1")
			c.leave("ann", 5)
			c.leave("ann", 1)
			c.ask("ann all", 6)
			c.wantEntered("ann all")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.options.Patience = time.Minute
				test.run(newCrowd(t, test.options))
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, Options{Capacity: 1, Share: 1, Patience: time.Second})
		c.ask("ann 1", 1)
		for _, label := range []string{"ann 2", "ann 3", "ann 4", "bob 1"} {
			c.ask(label, 1)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		c.wantEntered("ann 1")
		want := map[string]posthaste.Code{
			"ann 2": posthaste.CodeRateLimited,
			"ann 3": posthaste.CodeRateLimited,
			"ann 4": posthaste.CodeUnavailable, // no longer a line than that of bob
			"bob 1": posthaste.CodeUnavailable,
		}
		for label, code := range want {
			if c.refused[label] != code {
				t.Errorf("%s was refused as %q, want %q", label, c.refused[label], code)
			}
		}
		if got, want := c.gate.Usage(), (Usage{Held: 1, Refused: 4}); got != want {
			t.Errorf("usage %+v, want %+v", got, want)
		}
		c.leave("ann", 1)
		c.ask("bob 2", 1)
		c.wantEntered("bob 2")
	})
}

// TestGivingUpMakesRoom has one that waits for much room, and one behind it that
// needs none.
func TestGivingUpMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, Options{Capacity: 4, Share: 4, Patience: time.Hour})
		c.ask("ann 1", 2)
		gone, goAway := context.WithCancelCause(t.Context())
		left := make(chan error)
		go func() { left <- c.gate.Enter(gone, "bob", 4) }()
		synctest.Wait()
		c.ask("eve 1", 2)
		c.wantEntered("ann 1")
		cause := errors.New("the client is gone")
		goAway(cause)
		if err := <-left; !errors.Is(err, cause) {
			t.Errorf("error %v, want the cause", err)
		}
		synctest.Wait()
		c.wantEntered("eve 1")
	})
}

// TestGivingUpEndsTheTurn has a user with a line of large requests, each of which gives
// up when its turn has come: those that follow must not wait in its place.
func TestGivingUpEndsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, Options{Capacity: 4, Share: 4, Patience: time.Second})
		c.ask("eve 1", 2)
		c.ask("ann 1", 4)
		time.Sleep(time.Second / 2)
		c.ask("ann 2", 4)
		c.ask("bob 1", 2)
		c.wantEntered("eve 1")
		time.Sleep(time.Second / 2)
		synctest.Wait()
		c.wantEntered("bob 1")
		c.leave("eve", 2)
		c.leave("bob", 2)
		c.wantEntered("ann 2")
	})
}

// TestRandomCrowd lets many users come, wait, give up and leave, and checks that no
// bound is ever passed and that nothing is left behind.
func TestRandomCrowd(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				options := Options{Capacity: 1 + random.Int64N(20), Patience: time.Duration(random.Int64N(50)) * time.Millisecond}
				options.Share = 1 + random.Int64N(options.Capacity)
				gate := New(options)
				for range 300 {
					user, amount := fmt.Sprint("user ", random.IntN(5)), 1+random.Int64N(options.Capacity)
					stay := time.Duration(random.Int64N(20)) * time.Millisecond
					time.Sleep(time.Duration(random.Int64N(5)) * time.Millisecond)
					go func() {
						if gate.Enter(t.Context(), user, amount) == nil {
							time.Sleep(stay)
							gate.Leave(user, amount)
						}
					}()
					gate.audit(t)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if gate.audit(t); gate.held != 0 || len(gate.users) != 0 {
					t.Errorf("%d are held by %d users after all have left", gate.held, len(gate.users))
				}
			})
		})
	}
}

// audit checks what holds at every moment.
func (g *Gate) audit(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	var held int64
	waiting, lines := 0, 0
	for name, u := range g.users {
		held += u.held
		waiting += len(u.queue)
		if len(u.queue) > 0 {
			lines++
		}
		if u.held < 0 || u.held > g.options.Share {
			t.Errorf("%s holds %d of its share of %d", name, u.held, g.options.Share)
		}
	}
	if held != g.held || held > g.options.Capacity || waiting != g.waiting || lines != len(g.queue) {
		t.Errorf("held %d, counted %d of %d; waiting %d, counted %d; users %d, in the queue %d",
			held, g.held, g.options.Capacity, waiting, g.waiting, lines, len(g.queue))
	}
}

// TestDoPauses has work of one user while another waits: the next work begins after a pause that
// is as long as the work was, unless that was short or the gate does not pause. Who has worked
// does not wait for it.
func TestDoPauses(t *testing.T) {
	const long, short = 10 * time.Millisecond, shortWork
	tests := []struct {
		name        string
		pauses      bool
		works, next time.Duration // how long the first work takes, and when the next begins
	}{
		{"long work", true, long, 2 * long},
		{"short work", true, short, short},
		{"a gate without pauses", false, long, long},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := New(Options{Capacity: 1, Share: 1, Patience: time.Minute, Pauses: test.pauses})
				began := time.Now()
				next := make(chan time.Duration, 1)
				err := gate.Do(t.Context(), "ann", func() error {
					go func() {
						_ = gate.Do(t.Context(), "bob", func() error { next <- time.Since(began); return nil })
					}()
					time.Sleep(test.works)
					return errors.New("done")
				})
				if took := time.Since(began); err == nil || err.Error() != "done" || took != test.works {
					t.Errorf("Do returned %v after %v, want the work's error after %v", err, took, test.works)
				}
				if begins := <-next; begins != test.next {
					t.Errorf("the next work began after %v, want %v", begins, test.next)
				}
				synctest.Wait()
				if held := gate.Usage().Held; held != 0 {
					t.Errorf("%d places are held in the end", held)
				}
			})
		})
	}
}

// TestDoAloneDoesNotPause has nobody else who waits.
func TestDoAloneDoesNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := New(Options{Capacity: 1, Share: 1, Patience: time.Minute, Pauses: true})
		_ = gate.Do(t.Context(), "ann", func() error { time.Sleep(time.Second); return nil })
		if held := gate.Usage().Held; held != 0 {
			t.Errorf("%d places are held after the work, want 0", held)
		}
	})
}
