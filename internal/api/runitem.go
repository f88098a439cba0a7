package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// Controls of a publication of a run (contract, workflows 2.1).
const (
	workflowPrefix = "Workflow-"

	controlRunID        = "Workflow-Runid"
	controlRunCreatedAt = "Workflow-Createdat"
	controlRunInit      = "Workflow-Init"
	controlRunInvoke    = "Workflow-Invoke"
	controlRunURL       = "Workflow-Url"
	controlCallType     = "Workflow-Calltype"
	controlSDKVersion   = "Workflow-Sdk-Version"
	controlTriggerBySDK = "Workflow-Trigger-By-Sdk"
	controlUnknownSDK   = "Workflow-Unknown-Sdk"
	controlFeatureSet   = "Feature-Set"
	controlInvokeCount  = forwardPrefix + "Upstash-Workflow-Invoke-Count"
)

// ofRun reports whether the publication belongs to a run (contract, workflows D 60).
func (c controls) ofRun() bool {
	_, ok := c.values[controlRunID]
	return ok
}

// publishForRun accepts a publication of a run.
func (a *api) publishForRun(r *request, c controls, queue string) (answer, error) {
	i := a.newIntake(r)
	item, err := i.runItem(r.destinationText(), c, r.incoming())
	if err != nil {
		return answer{}, err
	}
	item.Queue = queue
	body, err := r.readBody(i.maxItem(&item))
	if err != nil {
		return answer{}, err
	}
	if err := a.decoder.runBody(&item, body); err != nil {
		return answer{}, err
	}
	receipts, err := a.options.Workflows.Submit(r.Context(), r.user, []workflow.Item{item})
	if err != nil {
		return answer{}, err
	}
	accepted := engine.Receipt{MessageID: receipts[0].MessageID, Deduplicated: receipts[0].Deduplicated}
	return receiptAnswer(item.Destination, []engine.Receipt{accepted})
}

// maxItem returns the maximum body size of an item.
func (i *intake) maxItem(item *workflow.Item) int64 {
	if item.Init || item.CallType == posthaste.CallRequest {
		return i.maxBody
	}
	return i.maxStep
}

// runItem reads an item without body and queue.
func (i *intake) runItem(destinationText string, c controls, in incoming) (workflow.Item, error) {
	item, err := i.decoder.runItem(destinationText, c, in)
	item.CallerIP = i.callerIP
	return item, err
}

func (d decoder) runItem(destinationText string, c controls, in incoming) (item workflow.Item, err error) {
	if c.dialect == posthaste.DialectService {
		c.dialect = posthaste.DialectBoth // SDKs read the Upstash family
	}
	if item.Init, err = c.flag(controlRunInit); err != nil {
		return item, err
	}
	if err = decodeInvocation(&item, c); err == nil {
		err = decodeIdentity(&item, c, in)
	}
	if err == nil {
		err = d.runPublication(&item, destinationText, c, in)
	}
	return item, err
}

// flag returns a boolean control, false if missing.
func (c controls) flag(suffix string) (bool, error) {
	given, ok := c.values[suffix]
	if !ok {
		return false, nil
	}
	return given.boolean()
}

// decodeInvocation reads whether another run invokes this one.
func decodeInvocation(item *workflow.Item, c controls) error {
	invoked, err := c.flag(controlRunInvoke)
	if !invoked || err != nil {
		return err
	}
	if !item.Init {
		return posthaste.Invalidf("%s true also requires %s true: an invocation starts a run",
			c.values[controlRunInvoke].name, upstashPrefix+controlRunInit)
	}
	item.Invocation = &workflow.Invocation{}
	return decodeInvokeDepth(item, c)
}

// decodeInvokeDepth reads the depth of nested invocations.
func decodeInvokeDepth(item *workflow.Item, c controls) error {
	given, ok := c.values[controlInvokeCount]
	if !ok {
		return nil
	}
	if item.InvokeDepth, ok = parseCount(given.text()); !ok {
		return given.invalid("a whole number of at least 0")
	}
	return nil
}

// decodeIdentity reads an item's run, its call type and its SDK.
func decodeIdentity(item *workflow.Item, c controls, in incoming) error {
	run, err := decodeRunID(c)
	if err != nil {
		return err
	}
	if item.Init && !isEchoed(run.ID) {
		return c.values[controlRunID].invalid(`an id for a new workflow run: printable ASCII without / \ ? # and %`)
	}
	item.RunID, item.CreatedAt = run.ID, run.CreatedAt
	if given, ok := c.values[controlCallType]; ok {
		item.CallType = posthaste.CallType(given.text())
	}
	item.FetchingSDK, item.Features = canFetch(c, in), c.features()
	unknown, err := c.flag(controlUnknownSDK)
	if unknown {
		item.Features |= posthaste.FeatureUnknownSDK
	}
	if err == nil {
		item.BySDK, err = c.flag(controlTriggerBySDK)
	}
	return err
}

// decodeRunID reads an optional run id and creation time (contract, workflows D 18).
func decodeRunID(c controls) (id workflow.RunID, err error) {
	if given, ok := c.values[controlRunID]; ok {
		given.values = slices.Compact(slices.Clone(given.values)) // some SDKs send it twice
		if id.ID = given.text(); id.ID == "" || len(id.ID) > posthaste.MaxRunIDLen {
			return id, given.invalid("the id of a workflow run, which has from 1 to " + strconv.Itoa(posthaste.MaxRunIDLen) + " bytes")
		}
	}
	if given, ok := c.values[controlRunCreatedAt]; ok {
		ms, err := strconv.ParseUint(given.text(), 10, 53)
		if err != nil {
			return id, given.invalid("a Unix time in milliseconds")
		}
		id.CreatedAt = time.UnixMilli(int64(ms))
	}
	return id, nil
}

// isEchoed reports whether SDKs return a run id unchanged. They read it from a header, some as
// Latin-1, and put it into URLs unescaped. With another id, the run would never end.
func isEchoed(id string) bool {
	isChanged := func(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`/\?#%`, c) }
	return id != "." && id != ".." && !strings.ContainsFunc(id, isChanged)
}

// features returns the SDK's features, from several lines.
func (c controls) features() posthaste.Features {
	return posthaste.ParseFeatures(c.values[controlFeatureSet].values)
}

// canFetch reports whether the publisher is an SDK that fetches lists. Others claim it and cannot
// (contract, workflows D 12).
func canFetch(c controls, in incoming) bool {
	_, isVersioned := c.values[controlSDKVersion]
	return isVersioned || strings.Contains(in.header.Get("Upstash-Telemetry-Sdk"), "@upstash/workflow")
}

// runPublication reads an item's destination and common settings.
func (d decoder) runPublication(item *workflow.Item, destinationText string, c controls, in incoming) error {
	destination, err := d.destination(destinationText)
	if destinationText == "" || err == nil && destination.group {
		return posthaste.Invalidf("destination %.200q is not a URL: requests that belong to a workflow run need one", destination.text)
	}
	if err != nil {
		return err
	}
	if err := checkRunControls(c); err != nil {
		return err
	}
	if item.Publication, err = d.publication(c, in); err != nil {
		return err
	}
	item.Destination = destination.text
	if item.CallType == posthaste.CallRequest {
		return d.completeCall(item, c)
	}
	item.Header = runHeader(item.Header)
	return d.decodeWorkflowURL(item, c)
}

// checkRunControls rejects controls that items of runs cannot have.
func checkRunControls(c controls) error {
	for suffix, instead := range map[string]string{
		controlCron:            "schedule a message to the workflow instead, which starts a run each time",
		controlDeduplicationID: "its id and those of its steps say what is a repetition",
		controlContentDedup:    "its id and those of its steps say what is a repetition",
	} {
		if given, ok := c.values[suffix]; ok {
			return posthaste.Invalidf("%s %.100q cannot be given with a workflow run: %s", given.name, given.text(), instead)
		}
	}
	return nil
}

// runHeader completes the headers of a delivery to a workflow: JSON by default, and no
// Accept-Encoding, because the response is for the server (contract, workflows 1.5).
func runHeader(header http.Header) http.Header {
	if header == nil {
		header = http.Header{}
	}
	header.Del("Accept-Encoding")
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	return header
}

// completeCall reads the failure callback of a call's response, and gives its headers their usual
// names.
func (d decoder) completeCall(item *workflow.Item, c controls) error {
	const nested, plain = "-" + controlCallback + "-" + controlFailureCallback + "-", "-" + controlFailureCallback + "-"
	failure, err := d.callback(c.under(controlCallback+"-"), controlFailureCallback)
	if failure == nil || item.Callback == nil || err != nil {
		return err
	}
	given := make(http.Header, len(failure.Given))
	for name, values := range failure.Given {
		given[strings.Replace(name, nested, plain, 1)] = values
	}
	failure.Given = given
	item.Callback.Settings.FailureCallback = failure
	return nil
}

// decodeWorkflowURL reads the destination of steps, which only the run's start has.
func (d decoder) decodeWorkflowURL(item *workflow.Item, c controls) (err error) {
	given, ok := c.values[controlRunURL]
	if !ok || !item.Init {
		return nil
	}
	item.WorkflowURL, err = d.url(given.name, given.text())
	return err
}

// invocationBody is the body of an invocation (contract, workflows 4.9).
type invocationBody struct {
	Body                 json.RawMessage            `json:"body"`
	Headers              map[string]json.RawMessage `json:"headers"`
	WorkflowRunID        string                     `json:"workflowRunId"`
	WorkflowRunCreatedAt int                        `json:"workflowRunCreatedAt"` // Unix ms
	Step                 json.RawMessage            `json:"step"`
}

// runBody sets an item's body. That of an invocation has the invoker too.
func (d decoder) runBody(item *workflow.Item, body []byte) error {
	if item.Invocation == nil {
		item.Body = body
		return nil
	}
	return d.invocation(item, body)
}

func (d decoder) invocation(item *workflow.Item, body []byte) (err error) {
	if len(body) == 0 {
		return posthaste.Invalidf("the body is empty, the JSON object of an invocation is expected")
	}
	var envelope invocationBody
	if err := unmarshal("the body", body, &envelope); err != nil {
		return err
	}
	if envelope.WorkflowRunID == "" {
		return posthaste.Invalidf("workflowRunId is missing, the id of the invoking workflow run is expected")
	}
	if err := checkStep(envelope.Step); err != nil {
		return err
	}
	later, err := d.laterDelivery(envelope.Headers)
	if err != nil {
		return err
	}
	invocation := item.Invocation
	invocation.Invoker.ID = envelope.WorkflowRunID
	if envelope.WorkflowRunCreatedAt > 0 {
		invocation.Invoker.CreatedAt = time.UnixMilli(int64(envelope.WorkflowRunCreatedAt))
	}
	invocation.Step, invocation.Features, invocation.Delivery = envelope.Step, later.features, later.settings
	item.Body, err = jsonBody(envelope.Body)
	return err
}

// checkStep returns an Error with CodeInvalid for anything but a step.
func checkStep(raw json.RawMessage) error {
	const accepted = "a JSON object with stepId and stepType"
	if len(raw) == 0 {
		return posthaste.Invalidf("step is missing, %s is expected", accepted)
	}
	if _, isStep := workflow.ParseStep(raw); !isStep {
		return posthaste.Invalidf("step %.100q is not %s", raw, accepted)
	}
	return nil
}

// laterDelivery is what a body says about a later delivery.
type laterDelivery struct {
	header   http.Header // as given
	features posthaste.Features
	settings posthaste.Settings
}

func (d decoder) laterDelivery(fields map[string]json.RawMessage) (later laterDelivery, err error) {
	if later.header, err = jsonHeader("the headers of the later delivery", fields); err != nil {
		return later, err
	}
	c, err := collectControls(later.header, nil)
	if err != nil {
		return later, err
	}
	later.features = c.features()
	later.settings, err = d.delivery(c, incoming{header: later.header})
	later.settings.Header = runHeader(later.settings.Header)
	return later, err
}

// runItems are a request's items of runs.
type runItems struct {
	items    []workflow.Item
	controls []controls
}

// itemReader reads an item without body and queue.
type itemReader func(destinationText string, c controls, in incoming) (workflow.Item, error)

// add reads a batch item.
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

// submit accepts all items or none.
func (l *runItems) submit(ctx context.Context, runs Runs, user string) ([]workflow.Receipt, error) {
	receipts, err := runs.Submit(ctx, user, l.items)
	if refused, ok := errors.AsType[*workflow.Refused](err); ok {
		return nil, l.controls[refused.Index].nameLimit(refused.Err)
	}
	return receipts, err
}

// submitRuns accepts the array's items of runs, and returns their receipts by index.
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
			return nil // reported in its place
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

// mayNameRun reports whether JSON may contain the header of an item of a run, so that other
// batches are read once. Names may be escaped.
func mayNameRun(text []byte) bool {
	return bytes.Contains(text, []byte(`\u`)) || namesRun(text)
}

// namesRun reports whether the header occurs unescaped, in any case.
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

func newRunReceiptView(receipt workflow.Receipt) receiptView {
	return receiptView{MessageID: receipt.MessageID, Deduplicated: receipt.Deduplicated}
}
