package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store"
)

// knownRun is what was acknowledged of a run.
type knownRun struct {
	id    string
	shape runShape
}

// runShape is all that a run is made of. Every change makes another one.
type runShape struct {
	Changes  int // how many there were; it is written into the run as its result
	State    posthaste.RunState
	List     []posthaste.MessageID
	Waiters  []int    // after which entries they began
	Events   []string // that are kept
	DLQEntry bool
	Callback posthaste.CallbackState
}

// runPart is what a change makes of one run.
type runPart struct {
	known *knownRun
	shape runShape
}

// started reports whether a run is known to be there.
func (r *knownRun) started() bool { return r.shape.Changes > 0 }

// active reports whether a run goes on.
func (r *knownRun) active() bool { return r.shape.State == posthaste.RunStarted }

// next returns the shape of a run after one more change, which the function makes.
func (r *knownRun) next(change func(*runShape)) runPart {
	shape := r.shape
	shape.Changes++
	change(&shape)
	return runPart{r, shape}
}

// save writes into a run the number of its changes.
func (p runPart) save(tx store.RunTx, run *posthaste.Run) {
	result := strconv.Itoa(p.shape.Changes)
	run.Result = &result
	tx.Save(run)
}

// transaction makes a change of a transaction.
func (w *witness) transaction(ch *change, transact func(store.RunTx) error) *change {
	now := w.now
	ch.call = func(ctx context.Context, s store.Store) error { return s.Transact(ctx, now, ann, transact) }
	return ch
}

// messageOf makes a message that is known of, for a run.
func (w *witness) messageOf(run *knownRun) *known {
	k := w.newMessage()
	k.run, k.message.Queue = run, ""
	return k
}

// start is a change that starts a run.
func (w *witness) start() *change {
	run := &knownRun{id: fmt.Sprintf("run-%d", len(w.runs))}
	w.runs = append(w.runs, run)
	first := w.messageOf(run)
	p := beginning(run, first)
	return w.transaction(&change{parts: []part{created(first)}, runs: []runPart{p}}, func(tx store.RunTx) error {
		return beginKnown(tx, p, first)
	})
}

func beginning(run *knownRun, first *known) runPart {
	return run.next(func(s *runShape) {
		s.State, s.List = posthaste.RunStarted, []posthaste.MessageID{first.message.ID}
	})
}

func beginKnown(tx store.RunTx, p runPart, first *known) error {
	run, err := begin(tx, posthaste.Run{
		RunRef:      posthaste.RunRef{ID: p.known.id, URL: "http://workflow.example/"},
		RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
	}, first.message)
	p.save(tx, run)
	return err
}

// step is a change that adds an entry to a run's list, lets its wait end and another
// begin, and takes an event that was kept, or keeps one.
func (w *witness) step(run *knownRun) *change {
	m := w.messageOf(run)
	deadline := w.now.Add(time.Duration(w.rng.IntN(3)) * time.Hour)
	take := len(run.shape.Events) > 0 && w.rng.IntN(2) == 0
	p := run.next(func(s *runShape) {
		s.Waiters = []int{len(s.List)}
		s.List = append(slices.Clone(s.List), m.message.ID)
		if take {
			s.Events = s.Events[1:]
		} else {
			s.Events = append(slices.Clone(s.Events), strconv.Itoa(s.Changes))
		}
	})
	return w.transaction(&change{parts: []part{created(m)}, runs: []runPart{p}}, func(tx store.RunTx) error {
		run, err := tx.LatestRun(run.id)
		if err != nil {
			return err
		}
		if err := endWaits(tx, run); err != nil {
			return err
		}
		tx.Wait(waiterOf(run, until(deadline), func(w *posthaste.Waiter) { w.After = run.Entries }))
		if take {
			_, _, err = tx.TakeEvent(run.Position, "event")
		} else {
			tx.BufferEvent(run.Position, "event", []byte(strconv.Itoa(p.shape.Changes)))
		}
		p.save(tx, run)
		return errors.Join(err, appendTo(tx, run, m.message))
	})
}

func endWaits(tx store.RunTx, run *posthaste.Run) error {
	waiters, err := tx.RunWaiters(run.Position)
	for _, w := range waiters {
		tx.EndWait(w)
	}
	return err
}

// failure is a change that lets a run fail.
func (w *witness) failure(run *knownRun) *change {
	p := run.next(func(s *runShape) {
		s.State, s.DLQEntry, s.Waiters, s.Events = posthaste.RunFailed, true, nil, nil
	})
	ch := &change{runs: []runPart{p}}
	for _, id := range run.shape.List {
		if k := w.byID[id]; k.living() && !k.asked() {
			ch.parts = append(ch.parts, cancelled(k))
		}
	}
	first := w.byID[run.shape.List[0]].message
	return w.transaction(ch, func(tx store.RunTx) error {
		run, err := tx.LatestRun(run.id)
		if err != nil {
			return err
		}
		addToDLQIn(tx, run, letterOf(first))
		p.save(tx, run)
		return errors.Join(tx.CancelDeliveries(run, true), endWaits(tx, run), tx.DropEvents(run.Position))
	})
}

// report is a change that says where the failure callback of a failed run stands.
func (w *witness) report(run *knownRun) *change {
	state := posthaste.CallbackStates[w.rng.IntN(len(posthaste.CallbackStates))]
	p := run.next(func(s *runShape) { s.Callback = state })
	return w.transaction(&change{runs: []runPart{p}}, func(tx store.RunTx) error {
		run, err := tx.LatestRun(run.id)
		if err != nil {
			return err
		}
		run.Reported = &posthaste.RunCallback{State: state}
		p.save(tx, run)
		return nil
	})
}

// restart is a change that takes a run out of the DLQ and starts another.
func (w *witness) restart(failed *knownRun) *change {
	ch := w.start()
	fresh, first := ch.runs[0], ch.parts[0].known
	p := failed.next(func(s *runShape) { s.DLQEntry = false })
	ch.runs = append(ch.runs, p)
	return w.transaction(ch, func(tx store.RunTx) error {
		run, err := tx.LatestRun(failed.id)
		if err != nil {
			return err
		}
		tx.RemoveFromDLQ(run)
		p.save(tx, run)
		return beginKnown(tx, fresh, first)
	})
}

// conclusion lets a settlement of a message add an entry to its run's list.
func (w *witness) conclusion(k *known, s *store.Settlement, ch *change) {
	m := w.messageOf(k.run)
	p := k.run.next(func(s *runShape) { s.List = append(slices.Clone(s.List), m.message.ID) })
	ch.parts, ch.runs = append(ch.parts, created(m)), append(ch.runs, p)
	s.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
		run, err := tx.LatestRun(k.run.id)
		if err != nil {
			return err
		}
		p.save(tx, run)
		return appendTo(tx, run, m.message)
	}
}

// runChange is some change of a run that was started.
func (w *witness) runChange(run *knownRun) *change {
	switch {
	case run.active() && w.rng.IntN(4) > 0:
		return w.step(run)
	case run.active():
		return w.failure(run)
	case run.shape.DLQEntry && w.rng.IntN(2) == 0:
		return w.restart(run)
	default:
		return w.report(run)
	}
}

func (w *witness) changeRun(ctx context.Context) error {
	started := slices.DeleteFunc(slices.Clone(w.runs), func(r *knownRun) bool { return !r.started() })
	if len(started) == 0 || w.rng.IntN(4) == 0 {
		return w.make(ctx, w.start())
	}
	return w.make(ctx, w.runChange(started[w.rng.IntN(len(started))]))
}

// took reports whether a change of unknown fate has reached a run.
func (p runPart) took(ctx context.Context, s store.Store) (bool, error) {
	run, err := s.LatestRun(ctx, ann, p.known.id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && *run.Result == strconv.Itoa(p.shape.Changes), err
}

// checkRuns compares the runs that are stored with what is known of them.
func (w *witness) checkRuns(ctx context.Context, entries []store.Entry) error {
	for _, r := range w.runs {
		shape, err := shapeOf(ctx, w.store, r.id)
		if err != nil {
			return fmt.Errorf("run %s: %w", r.id, err)
		}
		if diff := cmp.Diff(r.shape, shape, cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("run %s, known (-) and stored (+):\n%s", r.id, diff)
		}
	}
	return auditRuns(ctx, w.store, ann, entries)
}

// shapeOf reads what a run is made of; nothing if it was never started.
func shapeOf(ctx context.Context, s store.Store, id string) (shape runShape, err error) {
	err = s.Transact(ctx, start, ann, func(tx store.RunTx) error {
		shape = runShape{}
		run, err := tx.LatestRun(id)
		if errors.Is(err, store.ErrNotFound) {
			return errGivenUp
		}
		if err != nil {
			return err
		}
		if err := shape.read(tx, run); err != nil {
			return err
		}
		return errGivenUp
	})
	if errors.Is(err, errGivenUp) {
		err = nil
	}
	return shape, err
}

func (s *runShape) read(tx store.RunTx, run *posthaste.Run) error {
	changes, numberErr := strconv.Atoi(*run.Result)
	entries, entriesErr := tx.Entries(run.Position, -1)
	waiters, waitersErr := tx.RunWaiters(run.Position)
	s.Changes, s.State, s.List = changes, run.State, idsOfEntries(entries)
	for _, w := range waiters {
		s.Waiters = append(s.Waiters, w.After)
	}
	var eventErr error
	for {
		body, ok, err := tx.TakeEvent(run.Position, "event")
		if !ok || err != nil {
			eventErr = err
			break
		}
		s.Events = append(s.Events, string(body))
	}
	_, _, entryErr := tx.DLQEntry(run.DeadLetterID)
	if s.DLQEntry = entryErr == nil; errors.Is(entryErr, store.ErrNotFound) {
		entryErr = nil
	}
	if run.Reported != nil {
		s.Callback = run.Reported.State
	}
	return errors.Join(numberErr, entriesErr, waitersErr, eventErr, entryErr)
}
