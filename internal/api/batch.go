package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"

	"posthaste"
	"posthaste/internal/engine"
)

// batchChunk is how many items are decoded before they are published: what is
// held in memory beside the request and its answer.
const batchChunk = 500

// publishBatch accepts many messages, independently of each other (contract,
// messages 2.3). Nothing is accepted of a body that is no JSON array; an item
// that cannot be accepted is answered with its error in its place.
func (a *api) publishBatch(r *request) (answer, error) {
	body, err := r.readBody(a.options.MaxBatch)
	if err != nil {
		return answer{}, err
	}
	if err := checkArray(body); err != nil {
		return answer{}, err
	}
	b := batch{api: a, request: r, intake: a.newIntake(r)}
	if err := b.run(body); err != nil {
		return answer{}, err
	}
	return ok(rawJSON(append(b.answer, ']', '\n'))), nil
}

// rawJSON is an answer that is JSON already.
type rawJSON []byte

func (j rawJSON) stream(w io.Writer) error {
	_, err := w.Write(j)
	return err
}

// checkArray returns an error unless the text is one well-formed JSON array.
func checkArray(text []byte) error {
	if len(text) == 0 {
		return posthaste.Invalidf("the body is empty, a JSON array of messages is expected")
	}
	var all uninteresting
	if err := unmarshal("the body", text, &all); err != nil {
		return err
	}
	if bytes.TrimLeft(text, " \t\r\n")[0] != '[' {
		return posthaste.Invalidf("the body is not a JSON array, an array of messages is expected")
	}
	return nil
}

// uninteresting is JSON of which nothing is kept once it was found well-formed.
type uninteresting struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*uninteresting) UnmarshalJSON([]byte) error { return nil }

// batch publishes the items of an array and writes the array of the answer.
type batch struct {
	api     *api
	request *request
	intake  *intake

	publications []engine.Publication // of the present chunk
	refusals     []error              // of the present chunk, one an item: nil for those in publications
	answer       []byte               // without the closing bracket
}

// run publishes all items of a well-formed array.
func (b *batch) run(array []byte) error {
	b.answer = append(b.answer, '[')
	decoder := json.NewDecoder(bytes.NewReader(array))
	if _, err := decoder.Token(); err != nil { // the opening bracket
		return err
	}
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		b.add(raw)
		if len(b.refusals) == batchChunk {
			if err := b.publish(); err != nil {
				return err
			}
		}
	}
	return b.publish()
}

// add decodes an item.
func (b *batch) add(raw json.RawMessage) {
	p, err := b.decode(b.request.Context(), raw)
	b.refusals = append(b.refusals, err)
	if err == nil {
		b.publications = append(b.publications, p)
	}
}

// publish publishes the present chunk and answers each item of it, in order.
func (b *batch) publish() error {
	results, err := b.api.options.Engine.PublishBatch(b.request.Context(), b.request.user, b.publications)
	if err != nil {
		return err
	}
	published := 0
	for _, refusal := range b.refusals {
		var view any
		if refusal == nil {
			view, err = newResultView(b.publications[published].Destination, results[published])
			published++
		} else {
			view, err = newRefusalView(refusal)
		}
		if err != nil {
			return err
		}
		b.write(view)
	}
	b.publications, b.refusals = b.publications[:0], b.refusals[:0]
	return nil
}

func (b *batch) write(view any) {
	if len(b.answer) > len("[") {
		b.answer = append(b.answer, ',')
	}
	b.answer = append(b.answer, bytes.TrimSuffix(encodeJSON(view), []byte("\n"))...)
}

func newResultView(destination string, result engine.Result) (any, error) {
	if result.Err != nil {
		return newRefusalView(result.Err)
	}
	return newReceiptsView(destination, result.Receipts)
}

// newRefusalView shows an error that is the fault of an item. Our own faults are
// those of the whole batch.
func newRefusalView(err error) (any, error) {
	if posthaste.ErrorCode(err) == posthaste.CodeInternal {
		return nil, err
	}
	return errorBody{showable(err).Message}, nil
}

// batchItem is an item as it is written. Some SDKs write null or "" for what is
// not given.
type batchItem struct {
	Destination string                     `json:"destination"`
	Headers     map[string]json.RawMessage `json:"headers"`
	Body        json.RawMessage            `json:"body"`
	Queue       string                     `json:"queue"`
}

// decode reads an item.
func (b *batch) decode(ctx context.Context, raw json.RawMessage) (engine.Publication, error) {
	var item batchItem
	if err := unmarshal("the message", raw, &item); err != nil {
		return engine.Publication{}, err
	}
	header, err := jsonHeader(item.Headers)
	if err != nil {
		return engine.Publication{}, err
	}
	controls, err := collectControls(header, nil)
	if err != nil {
		return engine.Publication{}, err
	}
	if cron, ok := controls.values[controlCron]; ok {
		return engine.Publication{}, posthaste.Invalidf("%s %.100q cannot be part of a batch: "+
			"create the schedule with a request of its own", cron.name, cron.text())
	}
	p, err := b.intake.publication(ctx, item.Destination, controls, incoming{header: header})
	if err != nil {
		return engine.Publication{}, err
	}
	if p.Queue = item.Queue; p.Queue != "" {
		if err := posthaste.CheckName("queue name", p.Queue); err != nil {
			return engine.Publication{}, err
		}
	}
	p.Body, err = b.body(item.Body)
	return p, err
}

// body returns the bytes that an item's body stands for: those of a string, and
// the JSON text itself of anything else (contract, U-20).
func (b *batch) body(raw json.RawMessage) ([]byte, error) {
	body := []byte(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		var text string
		if err := unmarshal("body", raw, &text); err != nil {
			return nil, err
		}
		body = []byte(text)
	}
	if int64(len(body)) > b.api.options.MaxBody {
		return nil, tooLarge(b.api.options.MaxBody)
	}
	if len(body) == 0 {
		return nil, nil
	}
	return body, nil
}

// jsonHeader reads headers whose values are strings or arrays of strings. What no
// request could carry as a header is refused.
func jsonHeader(fields map[string]json.RawMessage) (http.Header, error) {
	header := make(http.Header, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !isHeaderName(name) {
			return nil, posthaste.Invalidf("%.100q is not the name of a header", name)
		}
		values, err := texts(name, fields[name])
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			if !isHeaderValue(value) {
				return nil, posthaste.Invalidf("the value of %s has a line break or another control character, "+
					"which headers cannot carry", name)
			}
			header.Add(name, value)
		}
	}
	return header, nil
}
