package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"posthaste"
)

// listedMessage is what is shown of a message, and of one that is in the DLQ.
type listedMessage struct {
	ID         string   `json:"messageId"`
	URL        string   `json:"url"`
	Method     string   `json:"method"`
	MaxRetries int      `json:"maxRetries"`
	CreatedAt  int64    `json:"createdAt"` // Unix ms
	NotBefore  int64    `json:"notBefore"` // Unix ms
	URLGroup   string   `json:"topicName"`
	Queue      string   `json:"queueName"`
	ScheduleID string   `json:"scheduleId"`
	FlowKey    string   `json:"flowControlKey"`
	RunID      string   `json:"workflowRunId"`
	Label      string   `json:"label"`
	Labels     []string `json:"labels"`
	Body       string   `json:"body"`
	BodyBase64 string   `json:"bodyBase64"`

	Header map[string][]string `json:"header"`

	State        posthaste.State `json:"state"`            // where it stands, by its log
	StateAt      int64           `json:"stateAt"`          // Unix ms
	NextDelivery int64           `json:"nextDeliveryTime"` // Unix ms

	DLQID              string `json:"dlqId"`
	FailedAt           int64  `json:"failedAt"` // Unix ms
	Error              string `json:"error"`
	ResponseStatus     int    `json:"responseStatus"`
	ResponseBody       string `json:"responseBody"`
	ResponseBodyBase64 string `json:"responseBodyBase64"`
}

// deadLetterTable shows entries of the DLQ of messages.
var deadLetterTable = tableOf(columns{
	{"FAILED", ofTime},
	{"DEAD LETTER", 20},
	{"STATUS", 6},
	{"MESSAGE", 26},
	{name: "DESTINATION"},
}, func(m listedMessage) []cell {
	return []cell{at(m.FailedAt), {text: m.DLQID}, {text: statusText(m.ResponseStatus)}, {text: m.ID}, {text: m.URL}}
})

// retriedTable shows messages that took the place of dead letters.
var retriedTable = tableOf(columns{{name: "MESSAGE"}}, func(m listedMessage) []cell { return []cell{{text: m.ID}} })

// statusText returns the status of an answer, 0 for none.
func statusText(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// printMessage writes a message, and why it failed if it is in the DLQ.
var printMessage = fieldsOf(func(m listedMessage) []field {
	retries := ""
	if m.CreatedAt != 0 { // else its log is all that is left
		retries = strconv.Itoa(m.MaxRetries)
	}
	fields := []field{
		{"message", m.ID},
		{"state", strings.TrimSpace(fmt.Sprint(m.State, " ", at(m.StateAt).text))},
		{"next attempt", at(m.NextDelivery).text},
		{"delivery to", m.URL},
		{"method", m.Method},
		{"retries", retries},
		{"created", at(m.CreatedAt).text},
		{"not before", at(m.NotBefore).text},
		{"URL group", m.URLGroup},
		{"queue", m.Queue},
		{"schedule", m.ScheduleID},
		{"flow key", m.FlowKey},
		{"run", m.RunID},
		{"label", cmp.Or(strings.Join(m.Labels, ", "), m.Label)},
		{"body", briefBody(m.Body, m.BodyBase64)},
	}
	fields = append(fields, headerFields(m.Header)...)
	switch {
	case m.DLQID != "":
		fields = append(fields,
			field{"dead letter", m.DLQID},
			field{"failed", at(m.FailedAt).text},
			field{"status", statusText(m.ResponseStatus)},
			field{"error", m.Error},
			field{"response", briefBody(m.ResponseBody, m.ResponseBodyBase64)})
	case m.ResponseStatus != 0 || m.Error != "":
		fields = append(fields, field{"status", statusText(m.ResponseStatus)}, field{"error", m.Error})
	}
	return fields
})

// briefBody returns the beginning of a body, or its size if the server has sent it in base64
// because it is no text.
func briefBody(text, inBase64 string) string {
	if inBase64 == "" {
		return begin(text, enoughBody)
	}
	size := len(inBase64)/4*3 - strings.Count(inBase64, "=")
	return fmt.Sprintf("binary, %d B", size)
}
