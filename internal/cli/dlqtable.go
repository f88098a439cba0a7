package cli

import "posthaste"

// listedFailure is what is shown of an entry of the DLQ of runs.
type listedFailure struct {
	DLQID              string                  `json:"dlqId"`
	RunID              string                  `json:"workflowRunId"`
	WorkflowURL        string                  `json:"workflowUrl"`
	URL                string                  `json:"url"`               // of the step that failed
	CreatedAt          int64                   `json:"workflowCreatedAt"` // Unix ms
	FailedAt           int64                   `json:"failedAt"`          // Unix ms
	ResponseStatus     int                     `json:"responseStatus"`
	ResponseBody       string                  `json:"responseBody"`
	ResponseBodyBase64 string                  `json:"responseBodyBase64"`
	Error              string                  `json:"error"`
	Label              string                  `json:"label"`
	FailureState       posthaste.CallbackState `json:"failureFunctionState"`
}

// failedRunTable shows entries of the DLQ of runs.
var failedRunTable = tableOf(columns{
	{"FAILED", ofTime},
	{"DEAD LETTER", 20},
	{"STATUS", 6},
	{"RUN", 28},
	{name: "WORKFLOW"},
}, func(entry listedFailure) []cell {
	return []cell{
		at(entry.FailedAt), {text: entry.DLQID}, {text: statusText(entry.ResponseStatus)}, {text: entry.RunID}, {text: entry.WorkflowURL},
	}
})

var printFailedRun = fieldsOf(func(entry listedFailure) []field {
	return []field{
		{"dead letter", entry.DLQID},
		{"run", entry.RunID},
		{"workflow", entry.WorkflowURL},
		{"created", at(entry.CreatedAt).text},
		{"failed", at(entry.FailedAt).text},
		{"label", entry.Label},
		{"delivery to", entry.URL},
		{"status", statusText(entry.ResponseStatus)},
		{"error", entry.Error},
		{"response", briefBody(entry.ResponseBody, entry.ResponseBodyBase64)},
		{"callback", string(entry.FailureState)},
	}
})

// startedTable shows runs that took the place of failed ones.
var startedTable = tableOf(columns{
	{"CREATED", ofTime},
	{"DEAD LETTER", 20},
	{name: "RUN"},
}, func(started listedFailure) []cell {
	return []cell{at(started.CreatedAt), {text: started.DLQID}, {text: started.RunID}}
})
