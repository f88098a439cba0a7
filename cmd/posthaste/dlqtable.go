package main

import (
	"encoding/json"
	"fmt"
	"io"

	"posthaste"
)

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

// newTable returns a table of entries.
func (failedRuns) newTable(out io.Writer, coloured bool) *table {
	return &table{out, coloured, []column{
		{"FAILED", len(tableTime)},
		{"DEAD LETTER", 20},
		{"STATUS", 6},
		{"RUN", 28},
		{name: "WORKFLOW"},
	}, func(value json.RawMessage) ([]cell, error) {
		var entry listedFailure
		if err := json.Unmarshal(value, &entry); err != nil {
			return nil, err
		}
		return []cell{
			at(entry.FailedAt), {text: entry.DLQID}, {text: statusText(entry.ResponseStatus)}, {text: entry.RunID}, {text: entry.WorkflowURL},
		}, nil
	}}
}

// print writes an entry.
func (failedRuns) print(t terminal, value json.RawMessage) error {
	var entry listedFailure
	if err := json.Unmarshal(value, &entry); err != nil {
		return fmt.Errorf("read a dead letter: %w", err)
	}
	return printFields(t.Out, []field{
		{"dead letter", entry.DLQID},
		{"run", entry.RunID},
		{"workflow", entry.WorkflowURL},
		{"created", at(entry.CreatedAt).text},
		{"failed", at(entry.FailedAt).text},
		{"label", entry.Label},
		{"delivery to", entry.URL},
		{"status", statusText(entry.ResponseStatus)},
		{"error", entry.Error},
		{"answer", briefBody(entry.ResponseBody, entry.ResponseBodyBase64)},
		{"callback", string(entry.FailureState)},
	})
}

// newStartedTable returns a table of runs that took the place of failed ones.
func newStartedTable(out io.Writer, coloured bool) *table {
	return &table{out, coloured, []column{
		{"CREATED", len(tableTime)},
		{"DEAD LETTER", 20},
		{name: "RUN"},
	}, func(value json.RawMessage) ([]cell, error) {
		var started struct {
			DLQID     string `json:"dlqId"`
			RunID     string `json:"workflowRunId"`
			CreatedAt int64  `json:"workflowCreatedAt"` // Unix ms
		}
		if err := json.Unmarshal(value, &started); err != nil {
			return nil, err
		}
		return []cell{at(started.CreatedAt), {text: started.DLQID}, {text: started.RunID}}, nil
	}}
}
