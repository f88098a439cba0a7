package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// publishForRun accepts a publication of a run.
func (a *api) publishForRun(r *request, c wire.Controls, queue string) (answer, error) {
	destination, receipt, err := a.submitItem(r, c, a.newIntake(r).runItem, queue)
	if err != nil {
		return answer{}, err
	}
	return receiptAnswer(destination, []engine.Receipt{{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}})
}

// submitItem submits the item that a request is.
func (a *api) submitItem(r *request, c wire.Controls, read itemReader, queue string) (destination string, receipt workflow.Receipt, err error) {
	item, err := read(r.destinationText(), c, r.incoming())
	if err != nil {
		return "", receipt, err
	}
	item.Queue = queue
	body, err := r.readBody(a.maxItem(&item))
	if err != nil {
		return "", receipt, err
	}
	if err := a.decoder.SetBody(&item, body); err != nil {
		return "", receipt, err
	}
	receipts, err := a.options.Workflows.Submit(r.Context(), r.user, []workflow.Item{item})
	if err != nil {
		return "", receipt, err
	}
	return item.Destination, receipts[0], nil
}

// maxItem returns the maximum body size of an item.
func (a *api) maxItem(item *workflow.Item) int64 {
	if item.Init || item.CallType == posthaste.CallRequest {
		return a.options.MaxBody
	}
	return a.options.MaxStep
}

// runItem reads an item without body and queue.
func (i *intake) runItem(destinationText string, c wire.Controls, in wire.Incoming) (workflow.Item, error) {
	item, err := i.api.decoder.RunItem(destinationText, c, in)
	item.CallerIP = i.callerIP
	return item, err
}

// triggerItem is runItem for a trigger.
func (i *intake) triggerItem(destinationText string, c wire.Controls, in wire.Incoming) (workflow.Item, error) {
	item, err := i.api.decoder.TriggerItem(destinationText, c, in)
	item.CallerIP = i.callerIP
	return item, err
}

// runItems are a request's items of runs.
type runItems struct {
	items    []workflow.Item
	controls []wire.Controls
}

// itemReader reads an item without body and queue.
type itemReader func(destinationText string, c wire.Controls, in wire.Incoming) (workflow.Item, error)

// add reads a batch item.
func (l *runItems) add(i *intake, item *batchItem, read itemReader) error {
	run, err := read(item.Destination, item.controls, i.incoming(item.header))
	if err != nil {
		return err
	}
	run.Queue = item.Queue
	body, err := i.body(item.Body, i.api.maxItem(&run))
	if err != nil {
		return err
	}
	if err := i.api.decoder.SetBody(&run, body); err != nil {
		return err
	}
	l.items, l.controls = append(l.items, run), append(l.controls, item.controls)
	return nil
}

// submit accepts all items or none.
func (l *runItems) submit(ctx context.Context, runs Runs, user string) ([]workflow.Receipt, error) {
	receipts, err := runs.Submit(ctx, user, l.items)
	if refused, ok := errors.AsType[*workflow.Refused](err); ok {
		return nil, l.controls[refused.Index].NameLimit(refused.Err)
	}
	return receipts, err
}

// submitRuns accepts the array's items of runs. It returns their receipts by index, and the number of all items.
func (b *batch) submitRuns(array []byte) (taken map[int]workflow.Receipt, items int, err error) {
	var found runItems
	var indexes []int
	err = eachItem(array, func(index int, raw json.RawMessage) error {
		items++
		item, err := readItem(raw)
		header := item.header
		if err != nil {
			header = wire.ReadableHeader(raw)
		}
		if wire.RunControl(header, wire.ControlRunID) == "" && !item.controls.OfRun() {
			return nil // reported in its place
		}
		b.request.forRun = b.request.forRun || wire.ContinuesRun(header)
		if err != nil {
			return err
		}
		indexes = append(indexes, index)
		return found.add(b.intake, &item, b.intake.runItem)
	})
	if err != nil || len(indexes) == 0 {
		return nil, items, err
	}
	receipts, err := found.submit(b.request.Context(), b.api.options.Workflows, b.request.user)
	taken = make(map[int]workflow.Receipt, len(receipts))
	for i, receipt := range receipts {
		taken[indexes[i]] = receipt
	}
	return taken, items, err
}

// mayNameRun reports whether JSON may contain the header of an item of a run, so that other
// batches are read once. Names may be escaped.
func mayNameRun(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) || namesRun(text)
}

// namesRun reports whether the header occurs unescaped, in any case.
func namesRun(text []byte) bool {
	const name, beforeHyphen = wire.ControlRunID, len("Workflow")
	for at := 0; ; at++ {
		hyphen := bytes.IndexByte(text[at:], '-')
		if hyphen < 0 {
			return false
		}
		at += hyphen
		first := at - beforeHyphen
		if first >= 0 && len(text)-first >= len(name) && bytes.EqualFold(text[first:first+len(name)], []byte(name)) {
			return true
		}
	}
}

func newRunReceiptView(receipt workflow.Receipt) receiptView {
	return receiptView{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}
}
