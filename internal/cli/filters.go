package cli

import (
	"net/url"
	"reflect"
	"strconv"
	"strings"
)

// Filters have the names of the API's parameters, except the URL of a destination: --url
// names the server. They are not taken from the environment, where a forgotten one would
// hide entries. The variables of their help are set where they are embedded.

// commonFilters are the filters that every list and bulk change has.
type commonFilters struct {
	Label          []string `group:"filter" param:"label" env:"-" sep:"none" placeholder:"LABEL" help:"${things} with a label."`
	CallerIP       []string `group:"filter" param:"callerIp" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"${made} from an IP address."`
	FlowControlKey []string `group:"filter" param:"flowControlKey" env:"-" sep:"none" placeholder:"KEY" help:"${things} with a flow-control key."`
	FromDate       timeFlag `group:"filter" param:"fromDate" env:"-" placeholder:"TIME" help:"${timed} at or after a time: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m or 2d."`
	ToDate         timeFlag `group:"filter" param:"toDate" env:"-" placeholder:"TIME" help:"${timed} at or before a time."`
}

// messageFilters are the filters that messages have too.
type messageFilters struct {
	Destination []string `group:"filter" param:"url" env:"-" sep:"none" placeholder:"URL" help:"${things} to a URL."`
	TopicName   []string `group:"filter" param:"topicName" env:"-" sep:"none" placeholder:"NAME" help:"${things} sent through a URL group."`
	ScheduleID  []string `group:"filter" param:"scheduleId" env:"-" sep:"none" placeholder:"ID" help:"${things} created by a schedule."`
	QueueName   []string `group:"filter" param:"queueName" env:"-" sep:"none" placeholder:"NAME" help:"${things} sent through a queue."`
	commonFilters
}

// logFilters are the filters of the log of messages.
type logFilters struct {
	MessageID []string `group:"filter" param:"messageId" env:"-" sep:"none" placeholder:"ID" help:"${things} with an ID. A filter given more than once matches any of its values."`
	placeFilters
	messageFilters
}

// placeFilters are the filters by the place that messages go to.
type placeFilters struct {
	Host []string `group:"filter" param:"host" env:"-" sep:"none" placeholder:"HOST" help:"${things} to a host, with or without port."`
	Path []string `group:"filter" param:"path" env:"-" sep:"none" placeholder:"PATH" help:"${things} to a path."`
}

// params returns the parameters that the fields of a command with a param tag give.
func params(command any) url.Values {
	found := url.Values{}
	addTagged("param", reflect.Indirect(reflect.ValueOf(command)), func(name, value string) {
		if exact, may := withCommas[name]; may && strings.Contains(value, ",") {
			name = exact
		}
		found.Add(name, value)
	})
	return found
}

// withCommas are the filters whose values may have commas themselves. The server takes such a
// value for a list unless the name of the filter says that it is one.
var withCommas = map[string]string{
	"url": "url[]", "path": "path[]", "workflowUrl": "workflowUrl[]", "workflowRunId": "workflowRunId[]", "flowControlKey": "flowControlKey[]",
}

// addTagged calls add with the tag and each value of the fields that have the tag, embedded
// ones too, and are not empty.
func addTagged(tag string, in reflect.Value, add func(name, value string)) {
	for field, value := range in.Fields() {
		name := field.Tag.Get(tag)
		switch {
		case name == "" && value.Kind() == reflect.Struct:
			addTagged(tag, value, add)
		case name == "" || value.IsZero():
		default:
			for _, text := range texts(value.Interface()) {
				add(name, text)
			}
		}
	}
}

// texts returns the values of a field as the API takes them.
func texts(value any) []string {
	switch value := value.(type) {
	case []string:
		return value
	case timeFlag:
		return value.values()
	case notBefore:
		return []string{strconv.FormatInt(value.Unix(), 10)}
	case bool:
		return []string{"true"}
	default:
		return []string{value.(string)}
	}
}
