package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"posthaste/internal/workflow"
)

// runItems are the items of one request that belong to runs, with their controls.
type runItems struct {
	items    []workflow.Item
	controls []controls
}

// itemReader reads an item, all but its body and its queue.
type itemReader func(destinationText string, c controls, in incoming) (workflow.Item, error)

// add reads an item of a batch.
func (l *runItems) add(i *intake, item *batchItem, read itemReader) error {
	run, err := read(item.Destination, item.controls, i.incoming(item.header))
	if err != nil {
		return err
	}
	run.Queue = item.Queue
	body, err := i.body(item.Body, i.maxItem(&run))
	if err != nil {
		return err
	}
	if err := i.decoder.runBody(&run, body); err != nil {
		return err
	}
	l.items, l.controls = append(l.items, run), append(l.controls, item.controls)
	return nil
}

// submit takes in all of the items or none.
func (l *runItems) submit(ctx context.Context, runs Runs, user string) ([]workflow.Receipt, error) {
	receipts, err := runs.Submit(ctx, user, l.items)
	if refused, ok := errors.AsType[*workflow.Refused](err); ok {
		return nil, l.controls[refused.Index].nameLimit(refused.Err)
	}
	return receipts, err
}

// submitRuns takes in the items of a well-formed array that belong to runs, and returns
// the receipts by the index of the item.
func (b *batch) submitRuns(array []byte) (map[int]workflow.Receipt, error) {
	var found runItems
	var indexes []int
	err := eachItem(array, func(index int, raw json.RawMessage) error {
		item, err := readItem(raw)
		header := item.header
		if err != nil {
			header = readableHeader(raw)
		}
		if runControl(header, controlRunID) == "" && !item.controls.ofRun() {
			return nil // it is answered in its place
		}
		b.request.forRun = b.request.forRun || continuesRun(header)
		if err != nil {
			return err
		}
		indexes = append(indexes, index)
		return found.add(b.intake, &item, b.intake.runItem)
	})
	if err != nil || len(indexes) == 0 {
		return nil, err
	}
	receipts, err := found.submit(b.request.Context(), b.api.options.Workflows, b.request.user)
	taken := make(map[int]workflow.Receipt, len(receipts))
	for i, receipt := range receipts {
		taken[indexes[i]] = receipt
	}
	return taken, err
}

// mayNameRun reports whether JSON may have the header that makes an item one of a run:
// its name can be written with escapes. It spares other batches from being read twice.
func mayNameRun(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) || namesRun(text)
}

// namesRun reports whether the header is named in plain letters, of any case.
func namesRun(text []byte) bool {
	const name, beforeHyphen = controlRunID, len("Workflow")
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

// newRunReceiptView tells a publisher about an item of a run.
func newRunReceiptView(receipt workflow.Receipt) receiptView {
	return receiptView{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}
}
