package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store"
)

var usagePromises = []promise{
	{"nothing is kept of nobody", func(tr *trial) {
		tr.accept(ownedBy(anna))
		tr.same("usage", store.Usage{}, tr.usage(ann))
	}},
	{"events are counted by day, from the first one on", func(tr *trial) {
		tr.end(tr.accept())
		tr.wait(day)
		tr.accept(delayed(never))
		today, tomorrow := start.Truncate(day), start.Add(day).Truncate(day)
		tr.wantUsage(ann, store.Usage{
			Log: store.KindUsage{Entries: 4, Oldest: start},
			Days: []store.DayUsage{
				{Start: today, KindUsage: store.KindUsage{Entries: 3, Oldest: start}},
				{Start: tomorrow, KindUsage: store.KindUsage{Entries: 1, Oldest: tr.now}},
			},
		})
	}},
	{"dead letters are counted until they leave", func(tr *trial) {
		first := tr.fail(tr.accept(), refused)
		tr.wait(time.Minute)
		second := tr.fail(tr.accept(), refused)
		tr.wait(time.Minute)
		third := tr.fail(tr.accept(), refused)
		tr.wantKept("dead letters", 3, first.FailedAt(), tr.usage(ann).DeadLetters)
		tr.ok(errorOf(tr.store.DeleteDeadLetters(tr.Context(), ann, []posthaste.DeadLetterID{first.ID, first.ID}, nil)))
		tr.wantKept("dead letters", 2, second.FailedAt(), tr.usage(ann).DeadLetters)
		again := tr.message(delayed(never))
		tr.retry([]posthaste.DeadLetterID{second.ID}, func(*posthaste.DeadLetter) (*posthaste.Message, error) { return again, nil })
		tr.wantKept("dead letters", 1, third.FailedAt(), tr.usage(ann).DeadLetters)
	}},
	{"runs are counted, and apart from them those in the DLQ", func(tr *trial) {
		first, _ := tr.start()
		tr.wait(time.Minute)
		second, _ := tr.start()
		tr.wait(time.Minute)
		letter := tr.addToDLQ(second)
		tr.wantKept("runs", 2, first.Position.Time(), tr.usage(ann).Runs)
		tr.wantKept("failed runs", 1, letter.FailedAt(), tr.usage(ann).FailedRuns)
		for range 2 {
			tr.update(second, func(tx store.RunTx, run *posthaste.Run) error {
				tx.RemoveFromDLQ(run)
				tx.RemoveFromDLQ(run)
				return nil
			})
		}
		tr.wantKept("runs", 2, first.Position.Time(), tr.usage(ann).Runs)
		tr.wantKept("failed runs", 0, time.Time{}, tr.usage(ann).FailedRuns)
	}},
	{"what did not take place is not counted", func(tr *trial) {
		run, first := tr.start()
		before, another := tr.usage(ann), tr.rivals(1)[0]
		tr.look(func(tx store.RunTx) error {
			run, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			addToDLQIn(tx, run, letterOf(first))
			_, err = begin(tx, tr.runOf(withID("another")), another)
			return err
		})
		tr.wantUsage(ann, before)
	}},
	{"what was trimmed is not counted", func(tr *trial) {
		tr.fail(tr.accept(), refused)
		tr.accept(delayed(30 * day))
		failed, _ := tr.start()
		tr.addToDLQ(failed)
		ended, _ := tr.start()
		tr.complete(ended, posthaste.RunSuccess)
		tr.wait(3 * day)
		tr.ok(errorOf(tr.trim(store.Horizon{Log: tr.now, DeadLetters: tr.now, Runs: tr.now})))
		tr.wantUsage(ann, store.Usage{})
	}},
	{"all users together have what each has", func(tr *trial) {
		tr.end(tr.accept())
		tr.wait(day)
		tr.end(tr.accept(ownedBy(anna)))
		tr.start(func(run *posthaste.Run) { run.User = anna })
		mine, theirs := tr.usage(ann), tr.usage(anna)
		total := must(tr.store.Usage(tr.Context(), ""))(tr)
		tr.wantKept("log of all", mine.Log.Entries+theirs.Log.Entries, start, total.Log)
		tr.wantKept("runs of all", 1, theirs.Runs.Oldest, total.Runs)
		tr.wantKept("dead letters of all", 0, time.Time{}, total.DeadLetters)
	}},
}

func (tr *trial) usage(user string) store.Usage {
	tr.Helper()
	usage := must(tr.store.Usage(tr.Context(), user))(tr)
	return usage
}

func (tr *trial) wantUsage(user string, want store.Usage) {
	tr.Helper()
	if diff := cmp.Diff(want, tr.usage(user), withoutBytes); diff != "" {
		tr.Errorf("usage (-want +got):\n%s", diff)
	}
}

func (tr *trial) wantKept(what string, entries int64, oldest time.Time, got store.KindUsage) {
	tr.Helper()
	if got.Entries != entries || !got.Oldest.Equal(oldest) {
		tr.Errorf("%s: %d since %v are kept, want %d since %v", what, got.Entries, got.Oldest, entries, oldest)
	}
}

// withoutBytes leaves sizes out of a comparison: they are estimates.
var withoutBytes = cmpopts.IgnoreFields(store.KindUsage{}, "Bytes")

// auditUsage requires that of a user as much is kept as Usage says. Events of claims
// may still be on their way, so both are asked until nothing has changed in between.
func auditUsage(ctx context.Context, s store.Store, user string) error {
	before, err := s.Usage(ctx, user)
	for {
		counted, countErr := countUsage(ctx, s, user)
		after, afterErr := s.Usage(ctx, user)
		if err := errors.Join(err, countErr, afterErr); err != nil {
			return err
		}
		if cmp.Equal(before, after, withoutBytes) {
			return errors.Join(compareUsage(counted, after), checkSizes(after))
		}
		before = after
	}
}

func compareUsage(counted, got store.Usage) error {
	counted.InFlight = got.InFlight // which only who claims knows
	if diff := cmp.Diff(counted, got, withoutBytes); diff != "" {
		return fmt.Errorf("usage (-counted +got):\n%s", diff)
	}
	return nil
}

func checkSizes(u store.Usage) error {
	days := int64(0)
	for _, d := range u.Days {
		days += d.Bytes
	}
	if days > u.Log.Bytes || min(days, u.DeadLetters.Bytes, u.FailedRuns.Bytes, u.Runs.Bytes) < 0 {
		return fmt.Errorf("sizes do not fit together: %+v", u)
	}
	return nil
}

// countUsage counts what is kept of a user by reading all of it.
func countUsage(ctx context.Context, s store.Store, user string) (u store.Usage, err error) {
	events, err := positionsOfEvents(ctx, s, user)
	for _, p := range events {
		at := p.Time()
		start := at.UTC().Truncate(day)
		if last := len(u.Days) - 1; last < 0 || !u.Days[last].Start.Equal(start) {
			u.Days = append(u.Days, store.DayUsage{Start: start})
		}
		countOne(&u.Log, at)
		countOne(&u.Days[len(u.Days)-1].KindUsage, at)
	}
	letters, lettersErr := readDeadLetters(ctx, s, user)
	for _, d := range letters {
		countOne(&u.DeadLetters, d.FailedAt())
	}
	_, inDLQ, entryErr := readRuns(ctx, s, user, allInDLQ)
	for _, d := range inDLQ {
		countOne(&u.FailedRuns, d.FailedAt())
	}
	runs, _, runsErr := readRuns(ctx, s, user, allRuns)
	for _, run := range runs {
		countOne(&u.Runs, run.Position.Time())
	}
	return u, errors.Join(err, lettersErr, entryErr, runsErr)
}

// positionsOfEvents returns those of all events of a user, ascending: of messages, and
// of those that only tell of runs.
func positionsOfEvents(ctx context.Context, s store.Log, user string) (all []posthaste.Position, err error) {
	for _, ofRuns := range []bool{false, true} {
		entries, err := readAll(ctx, s, user, logQuery(posthaste.Filter{OfRuns: ofRuns}))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.State.OfRun() == ofRuns {
				all = append(all, e.Position)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// countOne counts something that is not older than what was counted before.
func countOne(k *store.KindUsage, at time.Time) {
	if k.Entries++; k.Oldest.IsZero() {
		k.Oldest = at
	}
}

// readDeadLetters returns all dead letters of a user, the oldest first.
func readDeadLetters(ctx context.Context, s store.Store, user string) (all []*posthaste.DeadLetter, err error) {
	query := store.DeadLetterQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: plenty}
	for {
		page, err := s.DeadLetters(ctx, user, query)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.DeadLetters...); !page.More {
			return all, nil
		}
		query.Low = page.Next
	}
}
