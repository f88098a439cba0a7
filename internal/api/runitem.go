package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// The controls of a publication that belongs to a workflow run (contract, workflows
// 2.1).
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

// publishForRun takes in a publication that belongs to a run.
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

// maxItem returns the most bytes that the body of an item may have.
func (i *intake) maxItem(item *workflow.Item) int64 {
	if item.Init || item.CallType == posthaste.CallRequest {
		return i.maxBody
	}
	return i.maxStep
}

// runItem reads a publication that belongs to a run, all but its body and its queue.
func (i *intake) runItem(destinationText string, c controls, in incoming) (workflow.Item, error) {
	item, err := i.decoder.runItem(destinationText, c, in)
	item.CallerIP = i.callerIP
	return item, err
}

func (d decoder) runItem(destinationText string, c controls, in incoming) (item workflow.Item, err error) {
	if c.dialect == posthaste.DialectService {
		c.dialect = posthaste.DialectBoth // SDKs read the names of their own family
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

// flag returns the value of a control that is true or false; false if it is not given.
func (c controls) flag(suffix string) (bool, error) {
	given, ok := c.values[suffix]
	if !ok {
		return false, nil
	}
	return given.boolean()
}

// decodeInvocation reads whether an item starts its run for another one.
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

// decodeInvokeDepth reads how many runs invoked each other to get here.
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

// decodeIdentity reads which run an item belongs to, what it is for the run, and who
// says so.
func decodeIdentity(item *workflow.Item, c controls, in incoming) error {
	run, err := decodeRunID(c)
	if err != nil {
		return err
	}
	if item.Init && !comesBack(run.ID) {
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

// decodeRunID reads the id of a run, which may be missing, and when that was created
// (contract, workflows D 18).
func decodeRunID(c controls) (id workflow.RunID, err error) {
	if given, ok := c.values[controlRunID]; ok {
		given.values = slices.Compact(slices.Clone(given.values)) // some SDKs write the name twice
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

// comesBack reports whether the id of a run is one that SDKs send back as it was sent to
// them. They read it from a header, some of them as Latin-1, and write it into the path
// of a URL as it is. A run of which the endpoint speaks by another id would go on for
// ever.
func comesBack(id string) bool {
	isChanged := func(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`/\?#%`, c) }
	return id != "." && id != ".." && !strings.ContainsFunc(id, isChanged)
}

// features returns what the publisher's SDK asks for, which may be spread over
// several lines.
func (c controls) features() posthaste.Features {
	return posthaste.ParseFeatures(c.values[controlFeatureSet].values)
}

// canFetch reports whether the publisher is an SDK that fetches what is not delivered
// to it. Others announce that they do, and cannot (contract, workflows D 12).
func canFetch(c controls, in incoming) bool {
	_, isVersioned := c.values[controlSDKVersion]
	return isVersioned || strings.Contains(in.header.Get("Upstash-Telemetry-Sdk"), "@upstash/workflow")
}

// runPublication reads where an item goes and what it has in common with other
// publications.
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

// checkRunControls returns an error for what other publications can be given, and those
// of a run cannot.
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

// runHeader completes the headers of a delivery to a workflow. Its body is JSON unless
// someone says otherwise, and its answer is for us: how it may be encoded is not for a
// header to say that came with the first request of a run (contract, workflows 1.5).
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

// completeCall reads the failure callback of the delivery that will tell what came of
// a call. What it was given gets the names that the failure callback of any delivery
// has it under.
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

// decodeWorkflowURL reads where the steps of a run are delivered. Only the start of
// the run says it.
func (d decoder) decodeWorkflowURL(item *workflow.Item, c controls) (err error) {
	given, ok := c.values[controlRunURL]
	if !ok || !item.Init {
		return nil
	}
	item.WorkflowURL, err = d.url(given.name, given.text())
	return err
}

// invocationBody is the body of an item that starts a run for another one (contract,
// workflows 4.9).
type invocationBody struct {
	Body                 json.RawMessage            `json:"body"`
	Headers              map[string]json.RawMessage `json:"headers"`
	WorkflowRunID        string                     `json:"workflowRunId"`
	WorkflowRunCreatedAt int                        `json:"workflowRunCreatedAt"` // Unix ms
	Step                 json.RawMessage            `json:"step"`
}

// runBody gives an item its body. That of an invocation also says who invokes.
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

// checkStep returns an Error with CodeInvalid unless a text is a step of a workflow.
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

// laterDelivery is what a request says, in its body, of a delivery to come.
type laterDelivery struct {
	header   http.Header // as it was given
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
