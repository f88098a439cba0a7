package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
		defer f.Close()
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
		if taken == 0 || held {
			f.Errorf("room was taken %d times, and is held: %v", taken, held)
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
		defer f.Close()
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

// TestFollowersShareReads has every commit wake twenty followers and none concern them: the log
// is read once for all, at most a hundred times a second.
func TestFollowersShareReads(t *testing.T) {
	follow(t, "state=FAILED", "", func(f *followed) {
		const commits, others = 1000, 19
		log := eventlog.New(eventlog.Options{Store: f.log})
		var reading sync.WaitGroup
		for range others {
			reading.Go(func() {
				if got, err := readFor(f.Context(), log, "state=FAILED", patience, 0); len(got) > 0 || err != nil {
					f.Errorf("%d entries, %v", len(got), err)
				}
			})
		}
		go func() {
			for _, entry := range someEntries(10 + commits)[10:] {
				f.log.add(entry)
				time.Sleep(time.Millisecond)
			}
		}()
		f.want()
		reading.Wait()
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		if most := 2*(others+1) + 2*102; f.log.reads > most {
			f.Errorf("%d reads within a second, while there were %d commits; want %d at most", f.log.reads, commits, most)
		}
	})
}

// TestFollowersWaitLittle has a thousand followers get what is theirs of a thousand entries a second.
// No entry waits for longer than a rest, of the bubble's time, in which computing takes none.
func TestFollowersWaitLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, entries = 1000, 1000
		source := newGrowing()
		log := eventlog.New(eventlog.Options{Store: source})
		var reading sync.WaitGroup
		defer reading.Wait()
		for n := range followers {
			reading.Go(func() {
				got := 0
				query := store.EventQuery{High: posthaste.MaxPosition, Limit: 1, Filter: posthaste.Filter{Labels: []string{fmt.Sprint(n)}}}
				f, err := log.Follow(t.Context(), "ann", query, true)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				if err := f.Next(t.Context(), patience, func(_ eventlog.Mark, entry *store.Entry) error {
					got++
					if delay := time.Since(entry.Position.Time()); delay > 11*time.Millisecond { // positions lack what is below one
						t.Errorf("an entry came after %s", delay)
					}
					return nil
				}); got != 1 || err != nil {
					t.Errorf("follower %d: %d entries, %v", n, got, err)
				}
			})
		}
		time.Sleep(time.Second)
		for n := range entries {
			m := &posthaste.Message{Settings: posthaste.Settings{Labels: []string{fmt.Sprint(n)}}}
			source.add(store.NewEntry(posthaste.Event{Position: posthaste.FirstPosition(time.Now()), State: posthaste.StateCreated}, m))
			time.Sleep(time.Millisecond)
		}
	})
}

// baring is a log that leaves bodies out when it may.
type baring struct{ *growing }

func (b baring) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	return b.growing.Events(ctx, user, query, func(entry *store.Entry) error {
		bare := *entry
		if query.Bare {
			bare.Message = &posthaste.Message{}
		}
		return visit(&bare)
	})
}

// A follower that needs no bodies does not keep another one from them.
func TestFollowersWithAndWithoutBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := baring{newGrowing()}
		log := eventlog.New(eventlog.Options{Store: source})
		var reading sync.WaitGroup
		defer reading.Wait()
		for _, bare := range []bool{true, false, true} {
			f, err := log.Follow(t.Context(), "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 1, Bare: bare}, true)
			if err != nil {
				t.Fatal(err)
			}
			reading.Go(func() {
				defer f.Close()
				got, _, err := next(t.Context(), f, patience)
				if err != nil || len(got) != 1 || (len(got[0].Message.Body) == 0) != bare {
					t.Errorf("bare %v: %d entries, %v", bare, len(got), err)
				}
			})
		}
		time.Sleep(time.Second)
		at := posthaste.FirstPosition(time.Now())
		source.add(store.NewEntry(posthaste.Event{Position: at, State: posthaste.StateCreated}, &posthaste.Message{Body: []byte("body")}))
	})
}

// readFor returns what a follower visits until some time has passed. It pauses after each page.
func readFor(ctx context.Context, log *eventlog.Log, params string, d, pause time.Duration) (all []store.Entry, err error) {
	values, err := url.ParseQuery(params)
	if err != nil {
		return nil, err
	}
	query, fromNow, err := wire.Follow(values, "")
	if err != nil {
		return nil, err
	}
	f, err := log.Follow(ctx, "ann", query, fromNow)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for end := time.Now().Add(d); time.Now().Before(end) && !f.Ended(); time.Sleep(pause) {
		entries, _, err := next(ctx, f, time.Until(end))
		if err != nil {
			return all, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// varied returns entries of a user who labels messages and has bodies of any size.
func varied(n int, most int) []store.Entry {
	entries := someEntries(n)
	for i := range entries {
		m := &posthaste.Message{ID: posthaste.MessageID{byte(i), byte(i >> 8)}, URL: "https://example.com/" + string(rune('a'+i%5))}
		m.Body = make([]byte, rand.IntN(most))
		m.Labels = [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"c", "a"}}[rand.IntN(5)]
		event := entries[i].Event
		event.MessageID = m.ID
		if rand.IntN(3) == 0 {
			event.State = posthaste.StateDelivered
		}
		entries[i] = store.NewEntry(event, m)
	}
	return entries
}

// TestFollowersComeAndGo has followers with all kinds of filters come and go while entries are
// written: each gets all that match, once and in order, however slow it is.
func TestFollowersComeAndGo(t *testing.T) {
	filters := []string{"", "label=a", "label=a&label=b", "state=DELIVERED", "label=c&state=CREATED",
		"url=https://example.com/a", "host=example.com", "label=nobody", "fromDate=1700000000500"}
	for _, most := range []int{100, 20_000} {
		for _, followers := range []int{2, 20} { // with two, the log is often followed by nobody
			t.Run(fmt.Sprintf("%d followers, bodies below %d bytes", followers, most), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source, entries := newGrowing(), varied(1500, most)
					log := eventlog.New(eventlog.Options{Store: source})
					written := make(chan struct{})
					var running sync.WaitGroup
					defer running.Wait()
					running.Go(func() {
						defer close(written)
						for i := 0; i < len(entries); {
							n := min(1+rand.IntN(4), len(entries)-i)
							source.add(entries[i : i+n]...)
							i += n
							time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
						}
					})
					for range followers {
						running.Go(func() {
							for done := false; !done; {
								select {
								case <-written:
									done = true
								default:
								}
								filter := filters[rand.IntN(len(filters))]
								stay, pause := time.Duration(rand.IntN(1000)), time.Duration(rand.IntN(3)*rand.IntN(100))
								got, err := readFor(t.Context(), log, filter+"&count=100", stay*time.Millisecond, pause*time.Millisecond)
								if err != nil {
									t.Error(err)
								}
								wantPart(t, filter, entries, got)
							}
						})
					}
				})
			})
		}
	}
}

// wantPart requires that a follower got what matches of some entries, from the first that it got and
// without a gap.
func wantPart(t *testing.T, filter string, entries, got []store.Entry) {
	t.Helper()
	values, err := url.ParseQuery(filter)
	if err != nil {
		t.Fatal(err)
	}
	query := parse(t, values, thousand)
	if query.Low == 0 && len(got) > 0 {
		query.Low = got[0].Position
	}
	i := 0
	for _, entry := range entries {
		if i == len(got) {
			return
		}
		if entry.Position < query.Low || !query.Filter.MatchesEvent(&entry.Event, entry.Message) {
			continue
		}
		if entry.Position != got[i].Position {
			t.Errorf("%q: entry %d is at %d, want %d", filter, i, got[i].Position, entry.Position)
			return
		}
		i++
	}
	if i < len(got) {
		t.Errorf("%q: %d entries, want %d", filter, len(got), i)
	}
}

// TestFollowerFallsBehind does not read what is written until there is more than its queue holds.
func TestFollowerFallsBehind(t *testing.T) {
	follow(t, "", "", func(f *followed) {
		entries := varied(400, 2000)[10:]
		add := func(some []store.Entry) {
			for _, entry := range some {
				f.log.add(entry)
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
			}
		}
		f.log.add(entries[0])
		f.want(entries[0]) // from the store
		f.want()           // it has joined
		add(entries[1:300])
		got, _, err := next(f.Context(), f.Follower, patience)
		if err != nil || len(got) < 50 || len(got) > 200 { // 128 kB, with bodies of 1000 bytes or so
			f.Fatalf("its queue held %d entries, %v", len(got), err)
		}
		add(entries[300:])
		for len(got) < len(entries)-1 {
			more, _, err := next(f.Context(), f.Follower, patience)
			if err != nil || len(more) == 0 {
				f.Fatalf("%d entries after %d, %v", len(more), len(got), err)
			}
			got = append(got, more...)
		}
		wantPart(f.T, "", entries[1:], got)
	})
}

// One follower who waits for a date to come does not keep the others from what is written before.
func TestFollowerOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, entries := newGrowing(), someEntries(20)
		log := eventlog.New(eventlog.Options{Store: source})
		source.add(entries[:10]...)
		var reading sync.WaitGroup
		defer reading.Wait()
		for params, first := range map[string]int{"fromDate=1700000000015": 15, "": 10} {
			reading.Go(func() {
				got, err := readFor(t.Context(), log, params, time.Minute, 0)
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(entries[first:], got); diff != "" {
					t.Errorf("%q: entries differ (-want +got):\n%s", params, diff)
				}
			})
			time.Sleep(time.Second)
		}
		for _, entry := range entries[10:] {
			source.add(entry)
			time.Sleep(time.Second)
		}
	})
}

// failing is a log whose store fails from some time on.
type failing struct {
	*growing
	err error
}

func (f *failing) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	f.mu.Lock()
	err = f.err
	f.mu.Unlock()
	if err != nil {
		return 0, false, err
	}
	return f.growing.Events(ctx, user, query, visit)
}

// A store that fails ends all followers, and those that come later go on.
func TestFollowersOfAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, entries := &failing{growing: newGrowing()}, someEntries(3)
		source.add(entries[0])
		log := eventlog.New(eventlog.Options{Store: source})
		var reading sync.WaitGroup
		for range 3 {
			reading.Go(func() {
				if got, err := readFor(t.Context(), log, "", time.Minute, 0); len(got) > 0 || !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%d entries, %v", len(got), err)
				}
			})
		}
		fail := func(err error) {
			time.Sleep(time.Second)
			source.mu.Lock()
			source.err = err
			source.mu.Unlock()
		}
		fail(store.ErrUnavailable)
		source.add(entries[1])
		reading.Wait()
		fail(nil)
		time.AfterFunc(time.Second, func() { source.add(entries[2]) })
		if got, err := readFor(t.Context(), log, "", time.Minute, 0); len(got) != 1 || err != nil {
			t.Errorf("%d entries, %v", len(got), err)
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
		defer follower.Close()
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
		follower.Close()
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
			follower.Close()
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
