package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// growing is an eventlog.Source that entries are added to.
type growing struct {
	store.Log
	mu      sync.Mutex
	entries []store.Entry
	grown   chan struct{}
	reads   int
}

func newGrowing() *growing {
	return &growing{grown: make(chan struct{})}
}

// add adds entries and wakes who waits.
func (g *growing) add(entries ...store.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries = append(g.entries, entries...)
	close(g.grown)
	g.grown = make(chan struct{})
}

func (g *growing) Watch(context.Context, string) (end posthaste.Position, grown <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.entries) > 0 {
		end = g.entries[len(g.entries)-1].Position
	}
	return end, g.grown, nil
}

func (g *growing) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads++
	return storeOf(g.entries).Events(ctx, user, query, visit)
}

const patience = 15 * time.Second

// followed is a follower of a log that begins with some entries.
type followed struct {
	*testing.T
	*eventlog.Follower
	log     *growing
	entries []store.Entry // those that the log begins with, and more to be added
}

// follow makes a log of ten entries and follows it. It runs a test in a synctest
// bubble.
func follow(t *testing.T, params, last string, test func(f *followed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		values, err := url.ParseQuery(params)
		if err != nil {
			t.Fatal(err)
		}
		f := &followed{T: t, log: newGrowing(), entries: someEntries(20)}
		f.log.add(f.entries[:10]...)
		f.Follower, err = followAt(t, f.log, values, last)
		if err != nil {
			t.Fatal(err)
		}
		test(f)
	})
}

// followAt follows a log as parameters and the text of a mark say.
func followAt(t *testing.T, source eventlog.Source, params url.Values, last string) (*eventlog.Follower, error) {
	query, fromNow, err := wire.Follow(params, last)
	if err != nil {
		t.Fatalf("bad test parameters %v, %q: %v", params, last, err)
	}
	return eventlog.New(eventlog.Options{Store: source}).Follow(t.Context(), "ann", query, fromNow)
}

// next returns what a follower visits, and the marks to go on behind each entry.
func next(ctx context.Context, f *eventlog.Follower, patience time.Duration) (entries []store.Entry, marks []eventlog.Mark, err error) {
	err = f.Next(ctx, patience, func(mark eventlog.Mark, entry *store.Entry) error {
		entries, marks = append(entries, *entry), append(marks, mark)
		return nil
	})
	return entries, marks, err
}

// want requires the next entries.
func (f *followed) want(want ...store.Entry) {
	f.Helper()
	got, _, err := next(f.Context(), f.Follower, patience)
	if err != nil {
		f.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

// wantEnd requires that nothing can follow.
func (f *followed) wantEnd() {
	f.Helper()
	if entries, _, err := next(f.Context(), f.Follower, patience); !errors.Is(err, io.EOF) || !f.Ended() {
		f.Errorf("Next = %d entries, %v, Ended = %v, want the end", len(entries), err, f.Ended())
	}
}

// TestFollowBegins begins at the entry with the index, of a log of ten.
func TestFollowBegins(t *testing.T) {
	entries := someEntries(20)
	at := func(i int) string { return fmt.Sprint(entries[i].Position.Time().UnixMilli()) }
	behind := func(i int) string { return wire.Cursor(entries[i].Position + 1) }
	tests := []struct {
		name, params, last string
		want               int
	}{
		{"now", "", "", 10},
		{"now, with values that are empty", "cursor=&fromDate=", "", 10},
		{"now, with an order", "order=earliestFirst", "", 10},
		{"at a date", "fromDate=" + at(4), "", 4},
		{"at the beginning", "fromDate=0", "", 0},
		{"at a cursor", "cursor=" + behind(6), "", 7},
		{"at a time as cursor", "cursor=" + at(3), "", 3},
		{"behind the last entry read", "", behind(2), 3},
		{"at a time in place of the last entry", "", at(2), 2},
		{"behind the last entry, later than the cursor", "cursor=" + behind(1), behind(7), 8},
		{"behind the last entry, later than the date", "fromDate=" + at(1), behind(5), 6},
		{"at a date later than the last entry", "fromDate=" + at(8), behind(5), 8},
		{"in the future", "fromDate=" + at(15), "", 15},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			follow(t, test.params, test.last, func(f *followed) {
				if test.want < 10 {
					f.want(f.entries[test.want:10]...)
				}
				f.log.add(f.entries[10:]...)
				f.want(f.entries[max(10, test.want):]...)
			})
		})
	}
}

// away is a source that does not answer.
type away struct{ *growing }

func (away) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	return 0, nil, store.ErrUnavailable
}

// A stream does not begin where it could not go on, wherever it is to begin.
func TestFollowOfAStoreThatIsAway(t *testing.T) {
	for _, last := range []string{"", "1700000000000"} {
		for _, params := range []url.Values{nil, {"fromDate": {"1"}}} {
			if _, err := followAt(t, away{newGrowing()}, params, last); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Follow(%v, %q) = %v, want %v", params, last, err, store.ErrUnavailable)
			}
		}
	}
}

func TestFollowWaits(t *testing.T) {
	follow(t, "", "", func(f *followed) {
		begun := time.Now()
		f.want()
		if waited := time.Since(begun); waited != patience {
			f.Errorf("Next waited for %s, want %s", waited, patience)
		}
		time.AfterFunc(time.Second, func() { f.log.add(f.entries[10]) })
		f.want(f.entries[10])
		if waited := time.Since(begun); waited != patience+time.Second {
			f.Errorf("the first entry after a silence came %s late", waited-patience-time.Second)
		}
	})
}

// TestFollowWaitsWithoutRoom has a follower take room for what it reads, and find nothing.
func TestFollowWaitsWithoutRoom(t *testing.T) {
	follow(t, "state=FAILED", "", func(f *followed) {
		taken, held := 0, false
		f.Reserve = func(context.Context) error { taken, held = taken+1, true; return nil }
		f.Release = func() { held = false }
		go func() {
			for _, entry := range f.entries[10:] {
				time.Sleep(time.Second)
				synctest.Wait()
				if held {
					f.Errorf("room that was taken %d times is held while the follower waits", taken)
				}
				f.log.add(entry)
			}
		}()
		f.want()
		if taken < 10 || held {
			f.Errorf("room was taken %d times in ten commits, and is held: %v", taken, held)
		}
	})
}

// TestFollowLooksNoLonger has a follower look at one page after the other that has
// nothing for it: it is back in time to give a sign of life, and goes on where it was.
func TestFollowLooksNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := followAt(t, barren{}, url.Values{"fromDate": {"0"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			begun, mark := time.Now(), f.Mark()
			entries, _, err := next(t.Context(), f, patience)
			if waited := time.Since(begun); len(entries) > 0 || err != nil || waited > patience+time.Second {
				t.Errorf("call %d: %d entries, %v after %s, want none within %s", n, len(entries), err, waited, patience+time.Second)
			}
			if f.Mark() == mark {
				t.Errorf("call %d: the follower goes on at %v, where it was before", n, mark)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if _, _, err := next(ctx, f, patience); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next = %v, want the end of the context", err)
		}
	})
}

// TestFollowRests has every commit wake the follower and none concern it.
func TestFollowRests(t *testing.T) {
	follow(t, "state=FAILED", "", func(f *followed) {
		const commits = 1000
		others := someEntries(10 + commits)[10:]
		go func() {
			for _, entry := range others {
				f.log.add(entry)
				time.Sleep(time.Millisecond)
			}
		}()
		f.want()
		if f.log.reads > 6 {
			f.Errorf("%d reads within a second, while there were %d commits", f.log.reads, commits)
		}
	})
}

func TestFollowEnds(t *testing.T) {
	entries := someEntries(20)
	ms := func(i int) string { return fmt.Sprint(entries[i].Position.Time().UnixMilli()) }
	t.Run("at the count", func(t *testing.T) {
		follow(t, "fromDate=0&count=11", "", func(f *followed) {
			f.want(entries[:10]...)
			f.log.add(entries[10:]...)
			f.want(entries[10])
			f.wantEnd()
		})
	})
	t.Run("at toDate", func(t *testing.T) {
		follow(t, "toDate="+ms(11), "", func(f *followed) {
			f.log.add(entries[10:13]...)
			f.want(entries[10:12]...)
			f.wantEnd()
		})
	})
	t.Run("at a toDate that has passed", func(t *testing.T) {
		follow(t, "toDate="+ms(1), "", func(f *followed) { f.wantEnd() })
	})
	t.Run("with its context", func(t *testing.T) {
		follow(t, "", "", func(f *followed) {
			ctx, cancel := context.WithCancelCause(f.Context())
			gone := errors.New("gone")
			time.AfterFunc(time.Second, func() { cancel(gone) })
			if _, _, err := next(ctx, f.Follower, patience); !errors.Is(err, gone) {
				f.Errorf("Next = %v, want the cause", err)
			}
		})
	})
}

// TestFollowEndsWithItsDate has nothing written after toDate. What was begun before it and
// is written a little later comes too.
func TestFollowEndsWithItsDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, begun := newGrowing(), time.Now()
		params := url.Values{"toDate": {fmt.Sprint(begun.Add(10 * time.Second).UnixMilli())}}
		follower, err := followAt(t, log, params, "")
		if err != nil {
			t.Fatal(err)
		}
		f := &followed{T: t, Follower: follower}
		write := func(at, of time.Duration) store.Entry {
			entry := store.Entry{
				Event:   posthaste.Event{Position: posthaste.FirstPosition(begun.Add(of)), State: posthaste.StateCreated},
				Message: &posthaste.Message{},
			}
			time.AfterFunc(at, func() { log.add(entry) })
			return entry
		}
		early, late := write(time.Second, time.Second), write(14*time.Second, 9*time.Second)
		f.want(early)
		f.want(late)
		f.wantEnd()
		if took := time.Since(begun); took < 25*time.Second || took > 26*time.Second {
			t.Errorf("the end of ten seconds came after %s", took)
		}
		again, err := followAt(t, log, params, wire.Mark(f.Mark()))
		if err != nil || !again.Ended() {
			t.Errorf("who goes on behind the end has not ended: %v", err)
		}
	})
}

// TestFollowCountsOn loses a stream that a count bounds again and again: what is left of it
// comes, and no more.
func TestFollowCountsOn(t *testing.T) {
	const count = 9
	entries := someEntries(20)
	log := newGrowing()
	log.add(entries...)
	var got []store.Entry
	mark := ""
	for lives := 0; ; lives++ {
		params := url.Values{"fromDate": {"0"}, "count": {fmt.Sprint(count)}}
		follower, err := followAt(t, log, params, mark)
		if err != nil {
			t.Fatal(err)
		}
		if follower.Ended() {
			break
		}
		more, marks, err := next(t.Context(), follower, patience)
		if err != nil || lives == count {
			t.Fatalf("life %d after %d entries: %v", lives, len(got), err)
		}
		read := min(2, len(more)) // before the connection is lost
		got, mark = append(got, more[:read]...), wire.Mark(marks[read-1])
	}
	if diff := cmp.Diff(entries[:count], got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

// TestFollowGoesOn follows a log in several lives, each of which begins at the
// mark of the one before, and whose entries are read in any pieces.
func TestFollowGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := someEntries(2000)
		log := newGrowing()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			for piece := range slices.Chunk(entries, 7) {
				log.add(piece...)
				time.Sleep(10 * time.Millisecond)
			}
		})
		var got []store.Entry
		mark := "0"
		for lives := 0; len(got) < len(entries); lives++ {
			follower, err := followAt(t, log, url.Values{}, mark)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				more, _, err := next(t.Context(), follower, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, more...)
			}
			mark = wire.Mark(follower.Mark())
			if lives%2 == 0 && len(got) > 0 {
				mark = wire.Cursor(got[len(got)-1].Position + 1)
			}
		}
		if diff := cmp.Diff(entries, got); diff != "" {
			t.Errorf("entries differ (-want +got):\n%s", diff)
		}
	})
}
