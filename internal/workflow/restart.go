package workflow

import (
	"context"
	"errors"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// RestartRequest asks for failed runs to be started anew, from their beginning or,
// to resume them, from the step that failed (section 7).
type RestartRequest struct {
	IDs       []posthaste.DeadLetterID
	Resume    bool
	Overrides engine.Overrides
	CallerIP  string

	// AllKnown refuses the request, with nothing changed, if one of the ids is not in
	// the DLQ. Otherwise such ids are passed over.
	AllKnown bool

	// AnswerKey, if not empty, makes the request repeatable: Answer turns the results
	// into what is kept under the key, and a later request with the same key changes
	// nothing and returns that.
	AnswerKey string
	Answer    func([]Restarted) ([]byte, error)
}

// Restarted is what became of an entry of the DLQ of runs.
type Restarted struct {
	ID  posthaste.DeadLetterID
	Run posthaste.RunRef // the new run
	Err error            // why there is none: the entry stays
}

// Restart starts failed runs anew and takes them out of the DLQ, all in one commit.
// The results are in the order of the ids, without those that were passed over. It
// returns a kept answer instead if there is one.
func (s *Service) Restart(ctx context.Context, user string, req RestartRequest) (results []Restarted, kept []byte, err error) {
	return s.restart(ctx, user, req, nil)
}

func (s *Service) restart(ctx context.Context, user string, req RestartRequest, step *store.Step) (results []Restarted, kept []byte, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		results, kept = nil, nil
		if req.AnswerKey != "" {
			if kept, err = t.Answer(req.AnswerKey); err != nil || kept != nil {
				return err
			}
		}
		if results, err = t.restartAll(&req); err != nil {
			return err
		}
		if err := t.keepAnswer(&req, results); err != nil {
			return err
		}
		return t.Advance(step, len(results)-len(failures(results)), failures(results))
	})
	return results, kept, err
}

func (t *tx) keepAnswer(req *RestartRequest, results []Restarted) error {
	if req.AnswerKey == "" {
		return nil
	}
	answer, err := req.Answer(results)
	if err == nil {
		t.KeepAnswer(req.AnswerKey, answer)
	}
	return err
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

func (t *tx) restartAll(req *RestartRequest) ([]Restarted, error) {
	var results []Restarted
	for _, id := range req.IDs {
		letter, run, err := t.Buried(id)
		if errors.Is(err, store.ErrNotFound) {
			if req.AllKnown && !restarted(results, id) {
				return nil, posthaste.Errorf(posthaste.CodeNotFound, "there is no failed workflow run %s in the DLQ; nothing was changed", id)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		again, err := t.successor(run, letter, req)
		if err != nil && posthaste.ErrorCode(err) == posthaste.CodeInternal {
			return nil, err
		}
		result := Restarted{ID: id, Err: err}
		if err == nil {
			result.Run = again.RunRef
			t.replace(run, again)
		}
		results = append(results, result)
	}
	return results, nil
}

// restarted reports whether an id was given twice.
func restarted(results []Restarted, id posthaste.DeadLetterID) bool {
	for _, r := range results {
		if r.ID == id {
			return true
		}
	}
	return false
}

// successor starts the run that takes the place of one that failed. If it returns an
// Error that is not our own, it has written nothing.
func (t *tx) successor(failed *posthaste.Run, letter *posthaste.DeadLetter, req *RestartRequest) (*posthaste.Run, error) {
	run, err := t.likeFailed(failed, req)
	if err != nil {
		return nil, err
	}
	if req.Resume && letter.Message.Run.Entry > 0 {
		return run, t.resumeFrom(run, failed, letter, req.Overrides)
	}
	entries, err := t.Entries(failed.Position, 1)
	if err != nil || len(entries) == 0 {
		return nil, errors.Join(err, errNoEntries(entries))
	}
	return run, t.begin(run, entries[0].Body, req.Overrides.StartAt(t.Now()))
}

// replace takes a failed run out of the DLQ and links it with the run in its place.
func (t *tx) replace(failed, run *posthaste.Run) {
	t.Unbury(failed)
	successor := run.RunRef
	failed.Successor = &successor
	t.Save(failed)
}

// likeFailed makes a run with a new id and all that a failed one was triggered with,
// but for the overrides. It waits for nobody, and nobody waits for it.
func (t *tx) likeFailed(failed *posthaste.Run, req *RestartRequest) (*posthaste.Run, error) {
	id, err := t.service.newRunID()
	if err != nil {
		return nil, err
	}
	settings := failed.Settings.With(req.Overrides.Settings)
	settings.FailureCallback = failureCallbackFor(id, failed, req.Overrides.FailureCallback)
	if len(req.Overrides.Labels) > 0 {
		relabel(&settings)
	}
	if err := checkFlowControl(settings.FlowControl); err != nil {
		return nil, err
	}
	start := req.Overrides.StartAt(t.Now())
	if err := t.service.options.Limits.Check(engine.Publication{Settings: settings}, start.Sub(t.Now())); err != nil {
		return nil, err
	}
	return &posthaste.Run{
		RunRef:   posthaste.RunRef{ID: id, URL: failed.URL},
		CallerIP: req.CallerIP,
		Features: failed.Features,
		LazySDK:  failed.LazySDK,
		Settings: settings,
		Origin:   &posthaste.RunOrigin{RunRef: failed.RunRef, DeadLetterID: failed.DeadLetterID},
	}, nil
}

// checkFlowControl refuses half of a flow control: one half was overridden, and the
// failed run had no other.
func checkFlowControl(flow posthaste.FlowControl) error {
	hasKey, hasLimit := flow.Key != "", flow.FlowLimit != posthaste.FlowLimit{}
	switch {
	case hasKey && !hasLimit:
		return posthaste.Invalidf("the flow-control key %.100q overrides nothing: the run had no flow-control value, give one too", flow.Key)
	case hasLimit && !hasKey:
		return posthaste.Invalidf("the flow-control value overrides nothing: the run had no flow-control key, give one too")
	}
	return nil
}

// relabel carries new labels to where deliveries tell them.
func relabel(settings *posthaste.Settings) {
	settings.Header = withHeader(settings.Header, headerLabel, joinLabels(settings.Labels))
	if callback := settings.FailureCallback; callback != nil {
		callback.Settings.Header = withHeader(callback.Settings.Header, headerLabel, joinLabels(settings.Labels))
	}
}

// failureCallbackFor returns the failure callback of a new run: that of the failed
// one, to another URL if one is given.
func failureCallbackFor(runID string, failed *posthaste.Run, override *posthaste.Callback) *posthaste.Callback {
	var callback posthaste.Callback
	switch {
	case failed.FailureCallback != nil:
		callback = *failed.FailureCallback
	case override != nil:
		callback = *OwnFailureCallback(override.URL, failed.Header)
	default:
		return nil
	}
	if override != nil {
		callback.URL = override.URL
	}
	if callback.Given.Get(headerFailureRunID) != "" {
		callback.Given = withHeader(callback.Given, headerFailureRunID, runID)
	}
	return &callback
}

const (
	headerFailureRunID    = "Upstash-Failure-Callback-Workflow-Runid"
	headerFailureFeatures = "Upstash-Failure-Callback-Feature-Set"
)

// OwnFailureCallback is the failure callback of a run whose trigger left the protocol
// to the server: the forwarded headers go to it too.
func OwnFailureCallback(url string, forwarded http.Header) *posthaste.Callback {
	return &posthaste.Callback{
		URL:      url,
		Settings: posthaste.Settings{Header: mergeHeader(forwarded, nil)},
		Given:    http.Header{headerFailureFeatures: {"LazyFetch,InitialBody"}},
	}
}

// RunID of what was changed, and when it was created.
func runID(run *posthaste.Run) RunID { return RunID{ID: run.ID, CreatedAt: run.CreatedAt} }

// RetryFailureCallback sends the failure callback of a failed run again, which is
// allowed only after it has failed (section 7.5). It returns store.ErrNotFound for
// an unknown entry and an Error with CodeInvalid for another state.
func (s *Service) RetryFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (of RunID, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		letter, run, err := t.Buried(id)
		if err != nil {
			return err
		}
		of = runID(run)
		if err := checkCallbackState(run, posthaste.CallbackFailed, "retried"); err != nil {
			return err
		}
		return t.sendFailure(run, letter, letter.Message.MaxRetries())
	})
	return of, err
}

// CancelFailureCallback cancels a failure callback that is in progress. Its errors are
// those of RetryFailureCallback.
func (s *Service) CancelFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (of RunID, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		_, run, err := t.Buried(id)
		if err != nil {
			return err
		}
		of = runID(run)
		if err := checkCallbackState(run, posthaste.CallbackInProgress, "cancelled"); err != nil {
			return err
		}
		reported := *run.Reported
		reported.State = posthaste.CallbackCancelled
		run.Reported = &reported
		t.Save(run)
		_, err = t.Cancel(reported.MessageID)
		return err
	})
	return of, err
}

func checkCallbackState(run *posthaste.Run, want posthaste.CallbackState, done string) error {
	switch {
	case run.Reported == nil:
		return posthaste.Invalidf("workflow run %s has no failure callback", run.ID)
	case run.Reported.State != want:
		return posthaste.Invalidf("the failure callback of workflow run %s is in state %s, it can only be %s in state %s",
			run.ID, run.Reported.State, done, want)
	}
	return nil
}

// DeleteFailed removes entries from the DLQ of runs and returns how many there were.
// The runs stay in the logs.
func (s *Service) DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, error) {
	return s.deleteFailed(ctx, user, ids, nil)
}

func (s *Service) deleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID, step *store.Step) (deleted int, err error) {
	err = s.transact(ctx, user, func(t *tx) error {
		deleted = 0
		for _, id := range ids {
			_, run, err := t.Buried(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			t.Unbury(run)
			deleted++
		}
		return t.Advance(step, deleted, nil)
	})
	return deleted, err
}

// Failed returns a page of the runs, with the DLQ if the query asks for it: see
// store.Runs.
func (s *Service) Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	query.Failed = true
	return s.options.Store.Runs(ctx, user, query)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
