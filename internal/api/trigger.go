package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"posthaste"
	"posthaste/internal/workflow"
)

// A trigger starts a run; the server adds what an SDK would have sent (contract, workflows 2.4
// and 6.1).

// allFeatures are those of an SDK with the full protocol.
const allFeatures = "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig"

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
	c, err := collectControls(r.Header, r.reserved)
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

// triggerItem reads a trigger without body and queue. The SDK's version is known from the
// endpoint's response, or by asking first.
func (i *intake) triggerItem(destinationText string, c controls, in incoming) (workflow.Item, error) {
	destination, _ := i.decoder.destination(destinationText) // checked by runItem
	item, err := i.runItem(destinationText, triggerControls(c, destination.text), in)
	if !item.Features.Has(posthaste.FeatureUnknownSDK) {
		item.Features |= posthaste.FeatureCheckSDK
	}
	return item, err
}

// triggerControls returns controls as an SDK would send them. Of the protocol's own, only run id
// and unknown SDK count. The failure callback goes to the workflow by default, with all forwarded
// headers.
func triggerControls(given controls, url string) controls {
	own := map[string]control{}
	set := func(suffix, value string) {
		own[suffix] = control{upstashPrefix + suffix, []string{value}}
	}
	set(controlFailureCallback, url)
	for suffix, c := range given.values {
		if strings.HasPrefix(suffix, forwardPrefix) {
			own[controlFailureCallback+"-"+suffix] = control{upstashPrefix + controlFailureCallback + "-" + suffix, c.values}
		}
	}
	maps.Copy(own, given.values)
	maps.DeleteFunc(own, func(suffix string, _ control) bool {
		return strings.HasPrefix(suffix, workflowPrefix) && suffix != controlRunID && suffix != controlUnknownSDK
	})
	set(controlRunInit, "true")
	set(controlRunURL, url)
	set(controlSDKVersion, "1")
	set(forwardPrefix+upstashPrefix+controlSDKVersion, "1")
	set(controlFeatureSet, allFeatures)
	set(controlFailureCallback+"-"+controlFeatureSet, allFeatures)
	return controls{values: own, dialect: given.dialect}
}
