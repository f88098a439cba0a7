package api_test

import (
	"fmt"
	"net/url"
	"strings"
)

// workflowURL returns that of a workflow: one that ends after its first delivery, or that
// fails.
func (h *historian) workflowURL() string {
	return "https://" + h.one("a", "b") + ".example/" + h.one("workflow", "workflow", "workflow/2", "fail/500", "fail/489")
}

func (h *historian) trigger() string {
	headers := h.one("", "Upstash-Workflow-RunId: "+fmt.Sprintf("r%d\n", h.rng.IntN(5)), "Upstash-Workflow-RunId: "+fmt.Sprintf("r%d\n", h.rng.IntN(5))) +
		h.one("", "Upstash-Retries: 0\n", "Upstash-Retries: 1\nUpstash-Retry-Delay: 2000\n") +
		h.one("", "Upstash-Label: l0\n") + h.one("", "Upstash-Delay: 5s\n") + h.one("", "Upstash-Forward-X-Test: 1\n") + h.token()
	if h.chance(5) {
		headers += h.flow(h.one("k0", "k1"))
	}
	return h.request("POST", "trigger/"+h.workflowURL(), headers, h.body())
}

// protocol are the headers by which an SDK speaks for a run.
func protocol(run, url string) string {
	return "Upstash-Workflow-Init: false\nUpstash-Workflow-RunId: " + run + "\nUpstash-Workflow-Url: " + url + "\n" +
		"Upstash-Workflow-CallType: step\nUpstash-Feature-Set: LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig\n" +
		"Upstash-Workflow-Sdk-Version: 1\nUpstash-Forward-Upstash-Workflow-Sdk-Version: 1\n"
}

func (h *historian) step() string {
	url, id := h.workflowURL(), 1+h.rng.IntN(3)
	body := fmt.Sprintf(`{"stepId":%d,"stepName":"step %[1]d","stepType":"Run","out":"\"%d\"","concurrent":1}`, id, h.rng.IntN(10))
	return h.request("POST", "publish/"+url, protocol(fmt.Sprintf("r%d", h.rng.IntN(5)), url)+h.one("", "", "Upstash-Delay: 3s\n")+h.token(), body)
}

func (h *historian) wait() string {
	run, url, id := fmt.Sprintf("r%d", h.rng.IntN(5)), h.workflowURL(), 1+h.rng.IntN(3)
	body := asJSON(map[string]any{
		"url": url, "timeout": h.one("5s", "20s", "1m", "x"), "timeoutUrl": url,
		"timeoutHeaders": map[string][]string{"Upstash-Workflow-RunId": {run}, "Upstash-Forward-Upstash-Workflow-Sdk-Version": {"1"}},
		"step":           map[string]any{"stepId": id, "stepType": "Wait", "stepName": fmt.Sprint("wait ", id), "concurrent": 1},
	})
	return h.request("POST", "wait/"+escape(h.name("v")), protocol(run, url)+h.token(), body)
}

func (h *historian) notify() string {
	event := escape(h.name("v"))
	switch h.rng.IntN(4) {
	case 0:
		return get("waiters/" + event)
	case 1:
		return h.request("POST", "notify/"+event, h.token(), h.body())
	default:
		return h.request("POST", "notify/"+escape(h.runID())+"/"+event, h.token(), h.body())
	}
}

func (h *historian) endRun() string {
	path := "workflows/runs/" + escape(h.runID())
	switch h.rng.IntN(3) {
	case 0:
		return get(path)
	case 1:
		return h.request("DELETE", path+"?cancel=false", h.token(), `"result"`)
	default:
		return h.request("DELETE", path, h.token(), "")
	}
}

// runFilter returns parameters that select runs.
func (h *historian) runFilter(more ...func() string) string {
	return strings.Join(h.someOf([]func() string{
		func() string { return "workflowUrl=" + url.QueryEscape(h.workflowURL()) },
		func() string { return "workflowRunId=" + url.QueryEscape(h.runID()) },
		func() string { return "label=" + h.one("l0", "l1", "x%00", "%FF") },
		func() string { return "flowControlKey=" + h.one("k0", "k1", "%00") },
	}, more), "&")
}

func (h *historian) cancelRuns() string {
	if h.chance(3) {
		return h.request("DELETE", "workflows/runs", h.token(), asJSON(map[string]any{"workflowRunIds": []string{h.runID(), h.runID()}}))
	}
	filter := h.runFilter()
	if filter == "" {
		filter = "label=l0"
	}
	return h.request("DELETE", "workflows/runs?"+filter+h.one("", h.counted(3), "&async=true"), h.token(), "")
}

func (h *historian) failedRun() string {
	id := h.letterID()
	switch h.rng.IntN(5) {
	case 0:
		return get("workflows/dlq/" + id)
	case 1:
		return h.request("DELETE", "workflows/dlq/"+h.one("", "callback/")+id, h.token(), "")
	case 2:
		return h.request("POST", "workflows/dlq/callback/"+id, h.token(), "")
	default:
		return h.request("POST", "workflows/dlq/"+h.one("restart/", "resume/")+id, h.one("", "Upstash-Retries: 0\n")+h.token(), "")
	}
}

func (h *historian) failedRuns() string {
	filter := h.runFilter(
		func() string { return "responseStatus=" + h.one("500", "489", "0") },
		func() string { return "dlqIds=" + h.letterID() },
	)
	switch h.rng.IntN(4) {
	case 0:
		return h.request("DELETE", "workflows/dlq?"+filter+h.one(h.counted(2), "&dryRun=true"), h.token(), "")
	case 1:
		return h.request("POST", "workflows/dlq/"+h.one("restart", "resume")+"?"+filter+h.one(h.counted(3), "&dryRun=true", "&async=true"), h.token(), "")
	default:
		return get("workflows/dlq?" + filter + h.counted(4) + h.one("", "&order=earliestFirst"))
	}
}

func (h *historian) runLog() string {
	filter := h.runFilter(
		func() string {
			return "state=" + h.one("RUN_STARTED", "RUN_SUCCESS", "RUN_FAILED", "RUN_CANCELED", "STEP_SUCCESS", "LOST")
		},
		func() string { return "messageId=" + h.message() },
		func() string { return "host=" + h.one("a.example", "b.example", "%00") },
	)
	return get("workflows/" + h.one("logs", "events") + "?" + filter + h.counted(6) + h.one("", "&order=earliestFirst"))
}
