package api

import (
	"encoding/json"
	"net/http"

	"posthaste/internal/api/wire"
	"posthaste/internal/workflow"
)

// A trigger starts a run; the server adds what an SDK would have sent (contract, workflows 2.4
// and 6.1).

// triggeredView is a triggered run.
type triggeredView struct {
	WorkflowRunID     string `json:"workflowRunId"`
	WorkflowCreatedAt int64  `json:"workflowCreatedAt"` // Unix ms
	Deduplicated      bool   `json:"deduplicated"`      // it was active already
}

func newTriggeredView(receipt workflow.Receipt) triggeredView {
	return triggeredView{receipt.Run.ID, receipt.Run.CreatedAt.UnixMilli(), receipt.Deduplicated}
}

// trigger starts a run of the workflow in the path, or returns the active one with that id.
func (a *api) trigger(r *request) (answer, error) {
	c, err := wire.Collect(r.Header, r.reserved)
	if err != nil {
		return answer{}, err
	}
	if err := r.checkKnown(c); err != nil {
		return answer{}, err
	}
	item, err := a.newIntake(r).triggerItem(r.destinationText(), c, r.incoming())
	if err != nil {
		return answer{}, err
	}
	if item.Body, err = r.readBody(a.options.MaxBody); err != nil {
		return answer{}, err
	}
	receipts, err := a.options.Workflows.Submit(r.Context(), r.user, []workflow.Item{item})
	if err != nil {
		return answer{}, err
	}
	return ok(newTriggeredView(receipts[0])), nil
}

// triggerBatch starts many runs, all or none.
func (a *api) triggerBatch(r *request) (answer, error) {
	body, err := r.readBody(a.options.MaxBatch)
	if err != nil {
		return answer{}, err
	}
	if err := checkArray(body); err != nil {
		return answer{}, err
	}
	var found runItems
	i := a.newIntake(r)
	err = eachItem(body, func(_ int, raw json.RawMessage) error {
		item, err := readItem(raw)
		if err != nil {
			return err
		}
		if err := r.checkKnown(item.controls); err != nil {
			return err
		}
		return found.add(i, &item, i.triggerItem)
	})
	if err != nil {
		return answer{}, err
	}
	receipts, err := found.submit(r.Context(), a.options.Workflows, r.user)
	return answer{http.StatusCreated, views(receipts, newTriggeredView)}, err
}
