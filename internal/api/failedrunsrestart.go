package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/workflow"
)

// restartCount limits one call that restarts or resumes (contract 4.2, rule 1).
var restartCount = wire.Count{Default: 50, Most: 50}

// restartedView is a new run and the entry that it replaces.
type restartedView struct {
	runView
	DLQID string `json:"dlqId"` // removed entry
}

// restartedPage is the response to a restart of many runs.
type restartedPage struct {
	Cursor       string          `json:"cursor,omitempty"`
	WorkflowRuns []restartedView `json:"workflowRuns"`
	Failures     []failureView   `json:"failures,omitempty"` // entries that stay
}

func newRestartedView(r workflow.Restarted) restartedView {
	return restartedView{runView{r.Run.ID, r.Run.CreatedAt.UnixMilli()}, r.ID.String()}
}

func newRestartedPage(done workflow.Restarts, cursor string) restartedPage {
	page := restartedPage{Cursor: cursor, WorkflowRuns: []restartedView{}}
	for _, result := range done.Results {
		if result.Err != nil {
			page.Failures = append(page.Failures, newRestartFailure(result))
			continue
		}
		page.WorkflowRuns = append(page.WorkflowRuns, newRestartedView(result))
	}
	return page
}

func newRestartFailure(r workflow.Restarted) failureView {
	return failureView{DLQID: r.ID.String(), Error: showable(r.Err).Message}
}

// restartFailedRuns restarts or resumes listed or matching runs (contract 4.2; workflows 7), with
// overrides from control headers.
func (a *api) restartFailedRuns(kind posthaste.ActionKind) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		s, err := r.sweep(a.failedRunDLQ(), restartCount)
		if err != nil {
			return answer{}, err
		}
		req, err := a.restartRequest(r, kind, s.given)
		switch {
		case err != nil:
			return answer{}, err
		case s.async && req.Idempotency != nil:
			return answer{}, posthaste.Invalidf("%s cannot be given with async=true: "+
				"GET /v2/workflows/bulkActions shows whether the action was started", idempotencyKey)
		case s.async:
			return a.inBackground(r, kind, &s, req.Overrides)
		case s.dryRun:
			return a.dryRestart(r, &s, req)
		}
		page, err := s.page(r)
		if err != nil {
			return answer{}, err
		}
		req.IDs, req.More = page.ids, page.cursor != ""
		if s.ids != nil && !s.Begun { // a list is checked before its first page
			req.AllKnown = true
			if _, unknown, err := s.known(r, s.ids); err != nil {
				return answer{}, err
			} else if unknown != "" {
				req.Refusal = workflow.NoFailedRun(unknown)
			}
		}
		return a.restart(r, req, func(done workflow.Restarts) any { return newRestartedPage(done, page.after(done.Remaining)) })
	}
}

// dryRestart shows what a restart would change, and what would be rejected.
func (a *api) dryRestart(r *request, s *sweep, req workflow.RestartRequest) (answer, error) {
	page, total, unknown, err := a.dryRunPage(r, s)
	if err != nil {
		return answer{}, err
	}
	if unknown != "" && !s.Begun {
		return answer{}, workflow.NoFailedRun(unknown)
	}
	req.IDs = page.ids
	refused, err := a.options.Workflows.CannotRestart(r.Context(), r.user, req)
	view := newDryRunView(page, total)
	for _, result := range refused {
		view.Failures = append(view.Failures, newRestartFailure(result))
	}
	return ok(view), err
}

// restartFailedRun restarts or resumes one run.
func (a *api) restartFailedRun(kind posthaste.ActionKind) func(r *request, id posthaste.DeadLetterID) (answer, error) {
	return func(r *request, id posthaste.DeadLetterID) (answer, error) {
		req, err := a.restartRequest(r, kind, url.Values{"one": {id.String()}})
		if err != nil {
			return answer{}, err
		}
		req.IDs, req.AllKnown = []posthaste.DeadLetterID{id}, true
		restarted, err := a.restart(r, req, func(done workflow.Restarts) any { return newRestartedView(done.Results[0]) })
		if posthaste.ErrorCode(err) == posthaste.CodeNotFound {
			err = a.explainMissing(r, id)
		}
		return restarted, err
	}
}

// restartRequest reads a request without its selection. Overrides that every run would reject are
// rejected before a sweep starts.
func (a *api) restartRequest(r *request, kind posthaste.ActionKind, params url.Values) (workflow.RestartRequest, error) {
	c, overrides, err := a.decodeOverrides(r)
	if err != nil {
		return workflow.RestartRequest{}, err
	}
	if err := a.options.Workflows.CheckOverrides(overrides); err != nil {
		return workflow.RestartRequest{}, c.NameLimit(err)
	}
	once, err := r.idempotency(kind, c, params)
	return workflow.RestartRequest{
		Resume:      kind == posthaste.ActionResume,
		CallerIP:    a.callerIP(r.Request),
		Overrides:   overrides,
		Idempotency: once,
	}, err
}

// restart executes a request, or returns the cached response.
func (a *api) restart(r *request, req workflow.RestartRequest, view func(workflow.Restarts) any) (answer, error) {
	if req.Idempotency != nil {
		req.Idempotency.Encode = func(done workflow.Restarts) []byte { return encodeJSON(view(done)) }
	}
	done, kept, err := a.options.Workflows.Restart(r.Context(), r.user, req)
	switch {
	case err != nil:
		return answer{}, err
	case kept != nil:
		return ok(json.RawMessage(kept)), nil
	default:
		return ok(view(done)), nil
	}
}

// idempotencyKey is the header of an idempotent request.
const idempotencyKey = "Idempotency-Key"

// maxIdempotencyKey limits its value in bytes.
const maxIdempotencyKey = 255

// idempotency returns a request's idempotency key, nil if it has none. The fingerprint covers
// kind, overrides, and parameters except the cursor.
func (r *request) idempotency(kind posthaste.ActionKind, overrides wire.Controls, params url.Values) (*workflow.Idempotency, error) {
	values, given := r.Header[idempotencyKey]
	if !given {
		return nil, nil
	}
	key := strings.TrimSpace(strings.Join(values, ", "))
	if key == "" || len(key) > maxIdempotencyKey {
		return nil, posthaste.Invalidf("%s %.40q has %d bytes, a text of 1 to %d bytes is accepted",
			idempotencyKey, key, len(key), maxIdempotencyKey)
	}
	asked := url.Values{"": {string(kind)}}
	overrides.Each(func(suffix, text string) { asked["header "+suffix] = []string{text} })
	for name, values := range params {
		if name != "cursor" {
			asked[name] = values
		}
	}
	sum := sha256.Sum256([]byte(asked.Encode()))
	return &workflow.Idempotency{Key: key, Fingerprint: hex.EncodeToString(sum[:]), Page: params.Get("cursor")}, nil
}
