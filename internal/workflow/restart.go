package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// RestartRequest asks for failed runs to be started anew, from their beginning or,
// to resume them, from the step that failed (section 7).
type RestartRequest struct {
	IDs      []posthaste.DeadLetterID
	Resume   bool
	CallerIP string

	// Overrides change what the runs were triggered with. Only those of section 7.2
	// count: when to begin, retries, retry delay, flow control, labels and the URL of
	// the failure callback.
	Overrides engine.Overrides

	// AllKnown refuses the request, with nothing changed, if one of the ids is not in
	// the DLQ. Otherwise such ids are passed over.
	AllKnown bool

	// More says that the request is a page of a sweep and not its last one: that none of
	// its runs can be started is no error then, for those behind them may.
	More bool

	Once *Once // nil: a repetition is another request

	// Refusal, if not nil, is the answer unless the request is a repetition: what is
	// wrong with it may be that it was done.
	Refusal error
}

// Once makes a request repeatable: what it answered the first time is kept for
// store.ResponseWindow, and a repetition changes nothing and is answered the same.
type Once struct {
	Key  string // chosen by the client, for a request or for all pages of a sweep
	Asks string // what is asked for; a key stands for one thing
	Page string // of the sweep; each page is a request of its own

	// Answer turns the results into what is kept. It is called within the commit.
	Answer func(Restarts) []byte
}

// Restarted is what became of an entry of the DLQ of runs.
type Restarted struct {
	ID  posthaste.DeadLetterID
	Run posthaste.RunRef // the new run
	Err error            // why there is none: the entry stays
}

// Restarts is what became of a request.
type Restarts struct {
	Results []Restarted              // in the order of the ids, without those that were passed over
	Left    []posthaste.DeadLetterID // those that were too many for one commit, never all
}

// Restart starts failed runs anew and takes them out of the DLQ, all in one commit,
// which is bounded: the last ids may be left for another request. A run that cannot be
// started does not keep the others from it, but it is an error if that is so for all and
// no more follow. It returns the kept answer instead if the request is a repetition.
func (s *Service) Restart(ctx context.Context, user string, req RestartRequest) (done Restarts, kept []byte, err error) {
	err = s.restart(ctx, user, func(t *tx, broken faults) (err error) {
		done = Restarts{}
		if kept, err = t.keptAnswer(req.Once); err != nil || kept != nil {
			return err
		}
		if req.Refusal != nil {
			return req.Refusal
		}
		if done, err = t.restartAll(&req, broken); err != nil {
			return err
		}
		if err := noneStarted(done.Results); err != nil && !req.More && len(done.Left) == 0 {
			return err
		}
		t.keepAnswer(req.Once, done)
		return nil
	})
	return done, kept, err
}

// CannotRestart returns those entries that a request would not restart, and why: it
// changes nothing. What breaks in the middle of a restart it cannot foresee.
func (s *Service) CannotRestart(ctx context.Context, user string, req RestartRequest) (refused []Restarted, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		refused = nil
		for _, id := range req.IDs {
			_, failed, err := t.DLQEntry(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			_, err = t.likeFailed(failed, &req)
			if posthaste.ErrorCode(err) == posthaste.CodeInternal {
				return err
			}
			if err != nil {
				refused = append(refused, Restarted{ID: id, Err: err})
			}
		}
		return nil
	})
	return refused, err
}

// restartStep is Restart for a step of a bulk action, which notes what could not be
// started and goes on, with those that are left.
func (s *Service) restartStep(ctx context.Context, user string, req RestartRequest, step func(left []posthaste.DeadLetterID) *store.Step) error {
	return s.restart(ctx, user, func(t *tx, broken faults) error {
		done, err := t.restartAll(&req, broken)
		if err != nil {
			return err
		}
		failures := failures(done.Results)
		return t.Advance(step(done.Left), len(done.Results)-len(failures), failures)
	})
}

// faults are the entries that cannot be restarted though nobody asked for anything
// wrong, and what may be said about it.
type faults map[posthaste.DeadLetterID]error

// restart runs a change that restarts entries. When one of them fails in the middle,
// nothing is written, and the change is run again without it.
func (s *Service) restart(ctx context.Context, user string, change func(*tx, faults) error) error {
	broken := faults{}
	for {
		err := s.transact(ctx, user, func(t *tx) error { return change(t, broken) })
		fault, ok := errors.AsType[*fault](err)
		if !ok {
			return err
		}
		broken[fault.id] = fault.err
		if posthaste.ErrorCode(fault.err) == posthaste.CodeInternal {
			s.options.Logger.Error("restart.failed", "dlq_id", fault.id.String(), "error", fault.err)
			broken[fault.id] = errBroken
		}
	}
}

// fault is a failure in the middle of restarting an entry.
type fault struct {
	id  posthaste.DeadLetterID
	err error
}

func (f *fault) Error() string { return fmt.Sprintf("restart dead letter %s: %v", f.id, f.err) }

func (f *fault) Unwrap() error { return f.err } // a backend may know it as a reason to try again

var errBroken = posthaste.Errorf(posthaste.CodeInternal, "the server failed to restart this run, see its log")

// The keys under which answers are kept: for each key of a client what it stands for,
// and for each page what was answered.
func asksKey(once *Once) string   { return "restart asks " + once.Key }
func answerKey(once *Once) string { return fmt.Sprintf("restart answer %q %q", once.Key, once.Page) }

// keptAnswer returns the answer that was kept, nil if there is none. It returns an
// Error with CodeInvalid for a key that stands for something else.
func (t *tx) keptAnswer(once *Once) ([]byte, error) {
	if once == nil {
		return nil, nil
	}
	asks, err := t.CachedResponse(asksKey(once))
	if err != nil {
		return nil, err
	}
	if asks != nil && string(asks) != once.Asks {
		return nil, posthaste.Invalidf("Idempotency-Key %q was used for a request with other parameters: "+
			"choose another key, or change only the cursor", once.Key)
	}
	return t.CachedResponse(answerKey(once))
}

func (t *tx) keepAnswer(once *Once, done Restarts) {
	if once == nil {
		return
	}
	t.CacheResponse(asksKey(once), []byte(once.Asks))
	t.CacheResponse(answerKey(once), once.Answer(done))
}

// failures lists the entries that were not restarted.
func failures(results []Restarted) []posthaste.ActionFailure {
	var failed []posthaste.ActionFailure
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, posthaste.ActionFailure{ID: r.ID.String(), Error: r.Err.Error()})
		}
	}
	return failed
}

// noneStarted returns why none of the entries was restarted, nil if one was or there
// was none to restart.
func noneStarted(results []Restarted) error {
	if len(results) == 0 || len(failures(results)) < len(results) {
		return nil
	}
	return results[0].Err
}

// NoFailedRun is the error about an id that is not in the DLQ of runs.
func NoFailedRun(id string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "there is no failed workflow run %.100q in the DLQ", id)
}

func (t *tx) restartAll(req *RestartRequest, broken faults) (done Restarts, err error) {
	done.Left, err = doEach(t, req.IDs, func(id posthaste.DeadLetterID) error {
		if slices.ContainsFunc(done.Results, func(r Restarted) bool { return r.ID == id }) {
			return nil // it was given twice
		}
		if err := broken[id]; err != nil {
			done.Results = append(done.Results, Restarted{ID: id, Err: err})
			return nil
		}
		result, err := t.restartOne(id, req)
		switch {
		case err != nil:
			return &fault{id, err}
		case result != nil:
			done.Results = append(done.Results, *result)
		case req.AllKnown:
			return NoFailedRun(id.String())
		}
		return nil
	})
	return done, err
}

// restartOne starts the run that takes the place of one that failed, nil if there is
// no such entry. What the overrides make unacceptable is in the result; an error is
// our own, and then a part of the run may have been written.
func (t *tx) restartOne(id posthaste.DeadLetterID, req *RestartRequest) (*Restarted, error) {
	letter, failed, err := t.DLQEntry(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := t.likeFailed(failed, req)
	if err != nil && posthaste.ErrorCode(err) != posthaste.CodeInternal {
		return &Restarted{ID: id, Err: err}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.beginAgain(run, failed, letter, req); err != nil {
		return nil, err
	}
	if err := t.replace(failed, run); err != nil {
		return nil, err
	}
	return &Restarted{ID: id, Run: run.RunRef}, nil
}

// beginAgain starts a run with the payload of one that failed or, to resume it, with
// its list.
func (t *tx) beginAgain(run, failed *posthaste.Run, letter *posthaste.DeadLetter, req *RestartRequest) error {
	if req.Resume && letter.Message.Run.Entry > 0 {
		return t.resumeFrom(run, failed, letter, &req.Overrides)
	}
	entries, err := t.Entries(failed.Position, 1)
	if err != nil || len(entries) == 0 {
		return errors.Join(err, errNoEntries(entries))
	}
	return t.begin(run, entries[0].Body, req.Overrides.StartAt(t.Now()))
}

// replace takes a failed run out of the DLQ and links it with the run in its place. One
// that resumes it inherits the events that it had not waited for (contract, decision 33).
func (t *tx) replace(failed, run *posthaste.Run) error {
	t.RemoveFromDLQ(failed)
	successor := run.RunRef
	failed.Successor = &successor
	if !run.Origin.Resumed {
		return t.dropEvents(failed)
	}
	if failed.KeptBytes == 0 {
		t.Save(failed)
		return nil
	}
	t.portion.Take(failed.KeptBytes)
	run.KeptBytes, failed.KeptBytes = failed.KeptBytes, 0
	t.Save(run)
	t.Save(failed)
	return t.MoveEvents(failed.Position, run.Position)
}

// dropEvents forgets what a run has been told and not waited for, and saves the run.
func (t *tx) dropEvents(run *posthaste.Run) error {
	run.KeptBytes = 0
	t.Save(run)
	return t.DropEvents(run.Position)
}
