package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// RestartRequest restarts failed runs from the beginning or resumes them at the failed step
// (section 7).
type RestartRequest struct {
	IDs      []posthaste.DeadLetterID
	Resume   bool
	CallerIP string

	// Overrides replace settings of the runs. Only those of section 7.2 apply: start, retries,
	// retry delay, flow control, labels and the URL of the failure callback.
	Overrides posthaste.Overrides

	// AllKnown rejects the whole request if an id is not in the DLQ; otherwise unknown ids are
	// skipped.
	AllKnown bool

	// More means that other pages of a sweep follow, so that it is no error if no run of this
	// page can be restarted.
	More bool

	Idempotency *Idempotency // nil: not idempotent

	// Refusal, if not nil, is returned unless the request is a repetition, whose first execution
	// may be the reason for it.
	Refusal error
}

// Idempotency makes a request idempotent: its response is cached for store.ResponseWindow, and a
// repetition returns it and changes nothing.
type Idempotency struct {
	Key         string // the client's, for a request or all pages of a sweep
	Fingerprint string // hash of the request; a key has only one
	Page        string // cursor; each page has a response

	// Encode returns the response. It is called within the commit.
	Encode func(Restarts) []byte
}

// Restarted is the result for an entry of the DLQ of runs.
type Restarted struct {
	ID  posthaste.DeadLetterID
	Run posthaste.RunRef // the new run
	Err error            // the entry stays
}

// Restarts is the result of a request.
type Restarts struct {
	Results   []Restarted              // in the order of ids, without skipped ones
	Remaining []posthaste.DeadLetterID // remaining ids that did not fit in the commit
}

// Restart restarts or resumes failed runs and removes them from the DLQ in one commit of limited
// size, see Restarts.Remaining. A run that cannot be restarted does not stop the others; it is an
// error if none can and no more pages follow. For a repetition it returns the cached response.
func (s *Service) Restart(ctx context.Context, user string, req RestartRequest) (done Restarts, cached []byte, err error) {
	err = s.restart(ctx, user, func(t *tx, failed failedItems) (err error) {
		done = Restarts{}
		if cached, err = t.storedResponse(req.Idempotency); err != nil || cached != nil {
			return err
		}
		if req.Refusal != nil {
			return req.Refusal
		}
		if done, err = t.restartAll(&req, failed); err != nil {
			return err
		}
		if err := noneStarted(done.Results); err != nil && !req.More && len(done.Remaining) == 0 {
			return err
		}
		t.storeResponse(req.Idempotency, done)
		return nil
	})
	return done, cached, err
}

// CannotRestart returns the entries that Restart would reject, without changing anything.
// Internal failures cannot be predicted.
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
			_, err = t.cloneFailed(failed, &req)
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

// restartStep is Restart for a step of a bulk action, which records failures and continues.
func (s *Service) restartStep(ctx context.Context, user string, req RestartRequest, progress func(remaining []posthaste.DeadLetterID) *store.Step) error {
	return s.restart(ctx, user, func(t *tx, failed failedItems) error {
		done, err := t.restartAll(&req, failed)
		if err != nil {
			return err
		}
		failures := failures(done.Results)
		return t.Advance(progress(done.Remaining), len(done.Results)-len(failures), failures)
	})
}

// failedItems are entries whose restart failed internally, with the error to show.
type failedItems map[posthaste.DeadLetterID]error

// restart runs a change that restarts entries. If one fails, it is run again without that entry.
func (s *Service) restart(ctx context.Context, user string, change func(*tx, failedItems) error) error {
	failed := failedItems{}
	for {
		err := s.transact(ctx, user, func(t *tx) error { return change(t, failed) })
		item, ok := errors.AsType[*itemError](err)
		if !ok {
			return err
		}
		failed[item.id] = item.err
		if posthaste.ErrorCode(item.err) == posthaste.CodeInternal {
			s.options.Logger.Log(context.Background(), store.LogLevel(item.err), "restart.failed", "dlq_id", item.id.String(), "error", item.err)
			failed[item.id] = errRestart
		}
	}
}

// itemError is an internal failure while restarting an entry.
type itemError struct {
	id  posthaste.DeadLetterID
	err error
}

func (e *itemError) Error() string { return fmt.Sprintf("restart dead letter %s: %v", e.id, e.err) }

func (e *itemError) Unwrap() error { return e.err } // backends check for retryable errors

var errRestart = posthaste.Errorf(posthaste.CodeInternal, "the server failed to restart this run, see its log")

// Keys of cached responses: a fingerprint for each client key, a response for each page.
func fingerprintKey(id *Idempotency) string { return "restart asks " + id.Key }
func responseKey(id *Idempotency) string    { return fmt.Sprintf("restart answer %q %q", id.Key, id.Page) }

// storedResponse returns the cached response, nil if there is none. It returns an Error with
// CodeInvalid if the key was used for another request.
func (t *tx) storedResponse(id *Idempotency) ([]byte, error) {
	if id == nil {
		return nil, nil
	}
	fingerprint, err := t.CachedResponse(fingerprintKey(id))
	if err != nil {
		return nil, err
	}
	if fingerprint != nil && string(fingerprint) != id.Fingerprint {
		return nil, posthaste.Invalidf("Idempotency-Key %q was used for a request with other parameters: "+
			"choose another key, or change only the cursor", id.Key)
	}
	return t.CachedResponse(responseKey(id))
}

func (t *tx) storeResponse(id *Idempotency, done Restarts) {
	if id == nil {
		return
	}
	t.CacheResponse(fingerprintKey(id), []byte(id.Fingerprint))
	t.CacheResponse(responseKey(id), id.Encode(done))
}

// failures returns the entries that were not restarted.
func failures(results []Restarted) []posthaste.ActionFailure {
	var failed []posthaste.ActionFailure
	for _, r := range results {
		if r.Err != nil {
			failed = append(failed, posthaste.ActionFailure{ID: r.ID.String(), Error: r.Err.Error()})
		}
	}
	return failed
}

// noneStarted returns the first error if no entry was restarted, else nil.
func noneStarted(results []Restarted) error {
	if len(results) == 0 || len(failures(results)) < len(results) {
		return nil
	}
	return results[0].Err
}

// NoFailedRun returns the error about an unknown entry.
func NoFailedRun(id string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "there is no failed workflow run %.100q in the DLQ", id)
}

func (t *tx) restartAll(req *RestartRequest, failed failedItems) (done Restarts, err error) {
	done.Remaining, err = forEach(t, req.IDs, func(id posthaste.DeadLetterID) error {
		if slices.ContainsFunc(done.Results, func(r Restarted) bool { return r.ID == id }) {
			return nil // duplicate id
		}
		if err := failed[id]; err != nil {
			done.Results = append(done.Results, Restarted{ID: id, Err: err})
			return nil
		}
		result, err := t.restartOne(id, req)
		switch {
		case err != nil:
			return &itemError{id, err}
		case result != nil:
			done.Results = append(done.Results, *result)
		case req.AllKnown:
			return NoFailedRun(id.String())
		}
		return nil
	})
	return done, err
}

// restartOne restarts an entry, nil if there is none. Rejected overrides are in the result; an
// error is internal, and part of the run may have been written.
func (t *tx) restartOne(id posthaste.DeadLetterID, req *RestartRequest) (*Restarted, error) {
	letter, failed, err := t.DLQEntry(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := t.cloneFailed(failed, req)
	if err != nil && posthaste.ErrorCode(err) != posthaste.CodeInternal {
		return &Restarted{ID: id, Err: err}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.startClone(run, failed, letter, req); err != nil {
		return nil, err
	}
	if err := t.replace(failed, run); err != nil {
		return nil, err
	}
	return &Restarted{ID: id, Run: run.RunRef}, nil
}

// startClone starts a clone with the failed run's payload or, to resume, its list.
func (t *tx) startClone(run, failed *posthaste.Run, letter *posthaste.DeadLetter, req *RestartRequest) error {
	if req.Resume && letter.Message.Run.Entry > 0 {
		return t.resumeFrom(run, failed, letter, &req.Overrides)
	}
	entries, err := t.Entries(failed.Position, 1)
	if err != nil || len(entries) == 0 {
		return errors.Join(err, errNoEntries(entries))
	}
	return t.begin(run, entries[0].Body, req.Overrides.StartAt(t.Now()))
}

// replace removes a failed run from the DLQ and links it with its successor, which inherits its
// buffered events if it resumes it (contract, decision 33).
func (t *tx) replace(failed, run *posthaste.Run) error {
	t.RemoveFromDLQ(failed)
	successor := run.RunRef
	failed.Successor = &successor
	if !run.Origin.Resumed {
		return t.dropEvents(failed)
	}
	if failed.BufferedBytes == 0 {
		t.Save(failed)
		return nil
	}
	t.batch.Take(failed.BufferedBytes)
	run.BufferedBytes, failed.BufferedBytes = failed.BufferedBytes, 0
	t.Save(run)
	t.Save(failed)
	return t.MoveEvents(failed.Position, run.Position)
}

// dropEvents drops a run's buffered events, if there are any, and saves it.
func (t *tx) dropEvents(run *posthaste.Run) error {
	t.Save(run)
	if run.BufferedBytes == 0 {
		return nil
	}
	run.BufferedBytes = 0
	return t.DropEvents(run.Position)
}
