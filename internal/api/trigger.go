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
func (a *api) trigger(r *request, c wire.Controls) (answer, error) {
	_, receipt, err := a.submitItem(r, c, a.newIntake(r).triggerItem, "")
	return ok(newTriggeredView(receipt)), err
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
