package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// batchChunk is how many items are decoded before they are published, which limits memory.
const batchChunk = 500

// publishBatch accepts messages independently (contract, messages 2.3). A rejected item's error
// is in its place; a body that is no JSON array is rejected as a whole.
func (a *api) publishBatch(r *request) (answer, error) {
	body, err := r.readBody(a.options.MaxBatch)
	if err != nil {
		return answer{}, err
	}
	if err := checkArray(body); err != nil {
		return answer{}, err
	}
	b := batch{api: a, request: r, intake: a.newIntake(r), answer: []byte("[")}
	if err := b.run(body); err != nil {
		return answer{}, err
	}
	return ok(rawJSON(append(b.answer, ']', '\n'))), nil
}

// rawJSON is an encoded response.
type rawJSON []byte

func (j rawJSON) stream(w io.Writer) error {
	_, err := w.Write(j)
	return err
}

// checkArray returns an error for anything but a well-formed JSON array.
func checkArray(text []byte) error {
	if len(text) == 0 {
		return posthaste.Invalidf("the body is empty, a JSON array of messages is expected")
	}
	var all ignored
	if err := wire.Unmarshal("the body", text, &all); err != nil {
		return err
	}
	if bytes.TrimLeft(text, " \t\r\n")[0] != '[' {
		return posthaste.Invalidf("the body is not a JSON array, an array of messages is expected")
	}
	return nil
}

// ignored is JSON that is only checked.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// batch publishes the items of an array and builds the response.
type batch struct {
	api     *api
	request *request
	intake  *intake
	taken   map[int]workflow.Receipt // of items of runs, by index

	publications []engine.Publication // of the chunk
	controls     []wire.Controls      // of the publications
	chunk        []batchPlace         // all items of the chunk
	answer       []byte
	stored       bool // something is stored: errors are reported by item
}

// batchPlace is an item of the chunk. Without refusal and view, it is the next publication.
type batchPlace struct {
	refusal error // why it is rejected
	view    any   // the response, if already accepted
}

// run publishes all items. Those of runs come first, all or none: if they are rejected, nothing
// was accepted.
func (b *batch) run(array []byte) (err error) {
	if mayNameRun(array) {
		items := 0
		if b.taken, items, err = b.submitRuns(array); err != nil {
			return err
		}
		b.stored = len(b.taken) > 0
		if b.stored && len(b.taken) == items { // as SDKs send them: the array is not read again
			for index := range items {
				b.write(newRunReceiptView(b.taken[index]))
			}
			return nil
		}
	}
	err = eachItem(array, func(index int, raw json.RawMessage) error {
		b.add(index, raw)
		if len(b.chunk) < batchChunk {
			return nil
		}
		return b.publish()
	})
	if err != nil {
		return err
	}
	return b.publish()
}

// eachItem calls do for the items of a well-formed array.
func eachItem(array []byte, do func(index int, raw json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(array))
	if _, err := decoder.Token(); err != nil { // [
		return err
	}
	for index := 0; decoder.More(); index++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		if err := do(index, raw); err != nil {
			return err
		}
	}
	return nil
}

// add adds an item to the chunk.
func (b *batch) add(index int, raw json.RawMessage) {
	if receipt, taken := b.taken[index]; taken {
		b.chunk = append(b.chunk, batchPlace{view: newRunReceiptView(receipt)})
		return
	}
	p, c, err := b.decode(raw)
	b.chunk = append(b.chunk, batchPlace{refusal: err})
	if err == nil {
		b.publications, b.controls = append(b.publications, p), append(b.controls, c)
	}
}

// publish publishes the chunk and appends the responses in order. An internal failure is an error
// only if nothing is stored, because the client then repeats the whole batch.
func (b *batch) publish() error {
	for _, place := range b.chunk {
		if !b.stored && posthaste.ErrorCode(place.refusal) == posthaste.CodeInternal {
			return place.refusal
		}
	}
	results, err := b.api.options.Engine.PublishBatch(b.request.Context(), b.request.user, b.publications)
	if err != nil {
		if results, err = b.failed(err); err != nil {
			return err
		}
	}
	for _, result := range results {
		b.stored = b.stored || result.Err == nil
	}
	published := 0
	for _, place := range b.chunk {
		view, err := place.view, error(nil)
		switch {
		case view != nil:
		case place.refusal != nil:
			view, err = b.refusal(place.refusal)
		default:
			result := results[published]
			result.Err = b.controls[published].NameLimit(result.Err)
			view, err = b.resultView(b.publications[published].Destination, result)
			published++
		}
		if err != nil {
			return err
		}
		b.write(view)
	}
	b.publications, b.controls, b.chunk = b.publications[:0], b.controls[:0], b.chunk[:0]
	return nil
}

// failed returns an error as the result of each publication, or as such if nothing is stored.
func (b *batch) failed(err error) ([]engine.Result, error) {
	if !b.stored {
		return nil, err
	}
	return slices.Repeat([]engine.Result{{Err: err}}, len(b.publications)), nil
}

func (b *batch) write(view any) {
	if len(b.answer) > len("[") {
		b.answer = append(b.answer, ',')
	}
	b.answer = append(b.answer, bytes.TrimSuffix(encodeJSON(view), []byte("\n"))...)
}

func (b *batch) resultView(destination string, result engine.Result) (any, error) {
	if result.Err != nil {
		return b.refusal(result.Err)
	}
	return newReceiptsView(destination, result.Receipts)
}

// refusal returns the response of a rejected item, or an internal error if nothing is stored.
func (b *batch) refusal(err error) (any, error) {
	if posthaste.ErrorCode(err) == posthaste.CodeInternal {
		if !b.stored {
			return nil, err
		}
		b.api.logFailure(b.request.Request, err)
	}
	return errorBody{showable(err).Message}, nil
}

// batchItem is an item as sent. Some SDKs send null or "" for missing fields.
type batchItem struct {
	Destination string                     `json:"destination"`
	Headers     map[string]json.RawMessage `json:"headers"`
	Body        json.RawMessage            `json:"body"`
	Queue       string                     `json:"queue"`

	header   http.Header
	controls wire.Controls
}

// readItem reads an item without destination and body.
func readItem(raw json.RawMessage) (item batchItem, err error) {
	const accepted = "destination, headers, body and queue are accepted, settings are headers"
	err = wire.UnmarshalKnown("the message", raw, &item, accepted)
	if err != nil && wire.RunControl(wire.ReadableHeader(raw), wire.ControlRunID) != "" { // a later SDK may add fields, and its run must not fail
		item = batchItem{}
		err = wire.Unmarshal("the message", raw, &item)
	}
	if err != nil {
		return item, err
	}
	if item.header, err = wire.JSONHeader(fmt.Sprintf("the headers of the message for %.100q", item.Destination), item.Headers); err != nil {
		return item, err
	}
	if item.controls, err = wire.Collect(item.header, nil); err != nil {
		return item, err
	}
	if name, cron, given := item.controls.Cron(); given {
		return item, posthaste.Invalidf("%s %.100q cannot be part of a batch: create the schedule with a request of its own", name, cron)
	}
	if item.Queue != "" {
		return item, posthaste.CheckNewName("queue name", item.Queue)
	}
	return item, nil
}

// decode returns an item's publication and controls.
func (b *batch) decode(raw json.RawMessage) (p engine.Publication, c wire.Controls, err error) {
	item, err := readItem(raw)
	if err != nil {
		return p, c, err
	}
	if err := b.request.checkKnown(item.controls); err != nil {
		return p, c, err
	}
	p, err = b.intake.publication(item.Destination, item.controls, b.intake.incoming(item.header))
	if err != nil {
		return p, c, err
	}
	p.Queue = item.Queue
	p.Body, err = b.intake.body(item.Body, b.api.options.MaxBody)
	return p, item.controls, err
}
