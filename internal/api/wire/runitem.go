package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
	"posthaste/internal/workflow"
)

// Controls of a publication of a run (contract, workflows 2.1).
const (
	workflowPrefix = "Workflow-"

	ControlRunID        = "Workflow-Runid"
	controlRunCreatedAt = "Workflow-Createdat"
	controlRunInit      = "Workflow-Init"
	controlRunInvoke    = "Workflow-Invoke"
	controlRunURL       = "Workflow-Url"
	controlCallType     = "Workflow-Calltype"
	controlSDKVersion   = "Workflow-Sdk-Version"
	controlTriggerBySDK = "Workflow-Trigger-By-Sdk"
	controlUnknownSDK   = "Workflow-Unknown-Sdk"
	controlFeatureSet   = "Feature-Set"
	controlInvokeCount  = ForwardPrefix + "Upstash-Workflow-Invoke-Count"
)

// OfRun reports whether the publication belongs to a run (contract, workflows D 60).
func (c Controls) OfRun() bool {
	_, ok := c.values[ControlRunID]
	return ok
}

// RunItem reads an item of a run without body and queue.
func (d Decoder) RunItem(destinationText string, c Controls, in Incoming) (item workflow.Item, err error) {
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
func (c Controls) flag(suffix string) (bool, error) {
	given, ok := c.values[suffix]
	if !ok {
		return false, nil
	}
	return given.boolean()
}

// decodeInvocation reads whether another run invokes this one.
func decodeInvocation(item *workflow.Item, c Controls) error {
	invoked, err := c.flag(controlRunInvoke)
	if !invoked || err != nil {
		return err
	}
	if !item.Init {
		return posthaste.Invalidf("%s true also requires %s true: an invocation starts a run",
			c.values[controlRunInvoke].name, UpstashPrefix+controlRunInit)
	}
	item.Invocation = &workflow.Invocation{}
	return decodeInvokeDepth(item, c)
}

// decodeInvokeDepth reads the depth of nested invocations.
func decodeInvokeDepth(item *workflow.Item, c Controls) error {
	given, ok := c.values[controlInvokeCount]
	if !ok {
		return nil
	}
	if item.InvokeDepth, ok = ParseCount(given.text()); !ok {
		return given.invalid("a whole number of at least 0")
	}
	return nil
}

// decodeIdentity reads an item's run, its call type and its SDK.
func decodeIdentity(item *workflow.Item, c Controls, in Incoming) error {
	run, err := RunID(c)
	if err != nil {
		return err
	}
	if item.Init && !isEchoed(run.ID) {
		return c.values[ControlRunID].invalid(`an id for a new workflow run: printable ASCII without / \ ? # and %`)
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

// RunID reads an optional run id and creation time (contract, workflows D 18).
func RunID(c Controls) (id workflow.RunID, err error) {
	if given, ok := c.values[ControlRunID]; ok {
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
func (c Controls) features() posthaste.Features {
	return posthaste.ParseFeatures(c.values[controlFeatureSet].values)
}

// canFetch reports whether the publisher is an SDK that fetches lists. Others claim it and cannot
// (contract, workflows D 12).
func canFetch(c Controls, in Incoming) bool {
	_, isVersioned := c.values[controlSDKVersion]
	return isVersioned || strings.Contains(in.Header.Get("Upstash-Telemetry-Sdk"), "@upstash/workflow")
}

// runPublication reads an item's destination and common settings.
func (d Decoder) runPublication(item *workflow.Item, destinationText string, c Controls, in Incoming) error {
	destination, isGroup, err := d.Destination(destinationText)
	if destinationText == "" || err == nil && isGroup {
		return posthaste.Invalidf("destination %.200q is not a URL: requests that belong to a workflow run need one", destination)
	}
	if err != nil {
		return err
	}
	if err := checkRunControls(c); err != nil {
		return err
	}
	if item.Publication, err = d.Publication(c, in); err != nil {
		return err
	}
	item.Destination = destination
	if item.CallType == posthaste.CallRequest {
		return d.completeCall(item, c)
	}
	item.Header = runHeader(item.Header)
	return d.decodeWorkflowURL(item, c)
}

// checkRunControls rejects controls that items of runs cannot have.
func checkRunControls(c Controls) error {
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
func (d Decoder) completeCall(item *workflow.Item, c Controls) error {
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
func (d Decoder) decodeWorkflowURL(item *workflow.Item, c Controls) (err error) {
	given, ok := c.values[controlRunURL]
	if !ok || !item.Init {
		return nil
	}
	item.WorkflowURL, err = d.URL(given.name, given.text())
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

// SetBody sets an item's body. That of an invocation has the invoker too.
func (d Decoder) SetBody(item *workflow.Item, body []byte) error {
	if item.Invocation == nil {
		item.Body = body
		return nil
	}
	return d.invocation(item, body)
}

func (d Decoder) invocation(item *workflow.Item, body []byte) (err error) {
	if len(body) == 0 {
		return posthaste.Invalidf("the body is empty, the JSON object of an invocation is expected")
	}
	var envelope invocationBody
	if err := Unmarshal("the body", body, &envelope); err != nil {
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
	item.Body, err = JSONBody(envelope.Body)
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

func (d Decoder) laterDelivery(fields map[string]json.RawMessage) (later laterDelivery, err error) {
	if later.header, err = JSONHeader("the headers of the later delivery", fields); err != nil {
		return later, err
	}
	c, err := Collect(later.header, nil)
	if err != nil {
		return later, err
	}
	later.features = c.features()
	later.settings, err = d.Delivery(c, Incoming{Header: later.header})
	later.settings.Header = runHeader(later.settings.Header)
	return later, err
}

// WaitBody is the body of a request to wait (contract, workflows 4.6).
type WaitBody struct {
	URL            string                     `json:"url"`
	Timeout        json.RawMessage            `json:"timeout"`
	TimeoutURL     string                     `json:"timeoutUrl"`
	TimeoutHeaders map[string]json.RawMessage `json:"timeoutHeaders"`
	TimeoutBody    json.RawMessage            `json:"timeoutBody"`
	Step           json.RawMessage            `json:"step"`
}

// WaitRequest reads everything but the event. The request's headers are those of the delivery
// with the event.
func (d Decoder) WaitRequest(body *WaitBody, c Controls, in Incoming) (req workflow.WaitRequest, err error) {
	if req.Run, err = RunID(c); err != nil {
		return req, err
	}
	if req.Run.ID == "" {
		return req, posthaste.Invalidf("%s%s is missing, the id of the waiting workflow run is expected", UpstashPrefix, ControlRunID)
	}
	req.Features, req.FetchingSDK = c.features(), canFetch(c, in)
	if req.Delivery, err = d.Delivery(c, in); err != nil {
		return req, err
	}
	req.Delivery.Header = runHeader(req.Delivery.Header)
	req.Shown.Header = in.WithoutConnection()
	req.Shown.Header.Del("Authorization")
	if body.URL == "" {
		return req, posthaste.Invalidf("url is missing, the URL of the workflow is expected")
	}
	if req.Shown.URL, err = d.URL("url", body.URL); err != nil {
		return req, err
	}
	if err := checkStep(body.Step); err != nil {
		return req, err
	}
	req.Step = body.Step
	return req, d.waitTimeout(&req, body)
}

// waitTimeout reads the timeout and its delivery.
func (d Decoder) waitTimeout(req *workflow.WaitRequest, body *WaitBody) (err error) {
	if req.Timeout, req.TimeoutText, err = parseWaitTimeout(body.Timeout); err != nil {
		return err
	}
	if req.TimeoutURL, err = d.URL("timeoutUrl", cmp.Or(body.TimeoutURL, body.URL)); err != nil {
		return err
	}
	later, err := d.laterDelivery(body.TimeoutHeaders)
	if err != nil {
		return err
	}
	req.TimeoutDelivery, req.Shown.TimeoutHeader = later.settings, later.header
	req.Shown.TimeoutBody, err = JSONBody(body.TimeoutBody)
	return err
}

// defaultWait is the default timeout.
const defaultWait = "7d"

// parseWaitTimeout parses a duration or a number of seconds. 0 ends the wait at once.
func parseWaitTimeout(raw json.RawMessage) (timeout time.Duration, text string, err error) {
	text = defaultWait
	if len(raw) > 0 && string(raw) != "null" {
		list, err := Texts("timeout", raw)
		if err != nil || len(list) != 1 {
			return 0, "", posthaste.Invalidf("timeout %.100s is not a duration such as 90s or 7d", raw)
		}
		text = list[0]
	}
	if timeout, err = backoff.ParseDuration(text); err != nil {
		return 0, "", posthaste.Invalidf("timeout %v", err)
	}
	return max(timeout, time.Millisecond), text, nil
}

// allFeatures are those of an SDK with the full protocol.
const allFeatures = "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig"

// TriggerItem reads a trigger without body and queue. The SDK's version is known from the
// endpoint's response, or by asking first.
func (d Decoder) TriggerItem(destinationText string, c Controls, in Incoming) (workflow.Item, error) {
	destination, _, _ := d.Destination(destinationText) // checked by RunItem
	item, err := d.RunItem(destinationText, triggerControls(c, destination), in)
	if !item.Features.Has(posthaste.FeatureUnknownSDK) {
		item.Features |= posthaste.FeatureCheckSDK
	}
	return item, err
}

// triggerControls returns controls as an SDK would send them. Of the protocol's own, only run id
// and unknown SDK count. The failure callback goes to the workflow by default, with all forwarded
// headers.
func triggerControls(given Controls, url string) Controls {
	own := map[string]control{}
	set := func(suffix, value string) {
		own[suffix] = control{UpstashPrefix + suffix, []string{value}}
	}
	set(controlFailureCallback, url)
	for suffix, c := range given.values {
		if strings.HasPrefix(suffix, ForwardPrefix) {
			own[controlFailureCallback+"-"+suffix] = control{UpstashPrefix + controlFailureCallback + "-" + suffix, c.values}
		}
	}
	maps.Copy(own, given.values)
	maps.DeleteFunc(own, func(suffix string, _ control) bool {
		return strings.HasPrefix(suffix, workflowPrefix) && suffix != ControlRunID && suffix != controlUnknownSDK
	})
	set(controlRunInit, "true")
	set(controlRunURL, url)
	set(controlSDKVersion, "1")
	set(ForwardPrefix+UpstashPrefix+controlSDKVersion, "1")
	set(controlFeatureSet, allFeatures)
	set(controlFailureCallback+"-"+controlFeatureSet, allFeatures)
	return Controls{values: own, dialect: given.dialect}
}

// ContinuesRun reports whether the headers are of an active run's step or invocation, not a
// trigger.
func ContinuesRun(header http.Header) bool {
	if RunControl(header, ControlRunID) == "" {
		return false
	}
	starts := strings.EqualFold(RunControl(header, controlRunInit), "true")
	return !starts || strings.EqualFold(RunControl(header, controlRunInvoke), "true")
}

// RunControl returns a control of either family.
func RunControl(header http.Header, suffix string) string {
	if value := header.Get(ServicePrefix + suffix); value != "" {
		return value
	}
	return header.Get(UpstashPrefix + suffix)
}

// ReadableHeader returns the readable headers of a batch item, which may be invalid.
func ReadableHeader(item json.RawMessage) http.Header {
	var fields struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	_ = json.Unmarshal(item, &fields) // none if it is no object
	header := make(http.Header, len(fields.Headers))
	for name, raw := range fields.Headers {
		if values, err := Texts(name, raw); err == nil {
			name = http.CanonicalHeaderKey(name)
			header[name] = append(header[name], values...)
		}
	}
	return header
}
