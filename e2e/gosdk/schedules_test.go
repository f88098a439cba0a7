package gosdk

import (
	"slices"
	"testing"

	qstash "github.com/upstash/qstash-go"
)

func TestSchedule(t *testing.T) {
	s := newSink(t)
	id := must(client.Schedules().Create(qstash.ScheduleOptions{
		Cron:            "CRON_TZ=Europe/Istanbul 0 3 * * *",
		Destination:     s.url + "/report",
		Body:            "report",
		ContentType:     "text/x",
		Method:          "PUT",
		Headers:         map[string]string{"X-Tenant": "acme"},
		Retries:         qstash.RetryCount(2),
		Callback:        s.url + "/callback",
		FailureCallback: s.url + "/failed",
		Delay:           "1m",
		Timeout:         "30s",
	}))(t)
	schedule := must(client.Schedules().Get(id))(t)
	if schedule.CreatedAt == 0 || schedule.NextScheduleTime <= schedule.CreatedAt {
		t.Errorf("made at %d, next tick at %d", schedule.CreatedAt, schedule.NextScheduleTime)
	}
	equal(t, "the schedule", schedule, qstash.Schedule{
		Id:               id,
		CreatedAt:        schedule.CreatedAt,
		NextScheduleTime: schedule.NextScheduleTime,
		Cron:             "CRON_TZ=Europe/Istanbul 0 3 * * *",
		Destination:      s.url + "/report",
		Body:             "report",
		Method:           "PUT",
		Header:           map[string][]string{"Content-Type": {"text/x"}, "X-Tenant": {"acme"}},
		Retries:          2,
		Callback:         s.url + "/callback",
		FailureCallback:  s.url + "/failed",
		Delay:            60,
		CallerIP:         "127.0.0.1",
	})
	schedules := must(client.Schedules().List())(t)
	if !slices.ContainsFunc(schedules, func(s qstash.Schedule) bool { return s.Id == id }) {
		t.Errorf("the list %+v lacks %s", schedules, id)
	}

	check(t, client.Schedules().Pause(id))
	equal(t, "paused", must(client.Schedules().Get(id))(t).IsPaused, true)
	check(t, client.Schedules().Resume(id))
	equal(t, "paused after it was resumed", must(client.Schedules().Get(id))(t).IsPaused, false)

	check(t, client.Schedules().Delete(id))
	_, err := client.Schedules().Get(id)
	checkError(t, err, id)
}

func TestScheduleJSON(t *testing.T) {
	id := must(client.Schedules().CreateJSON(qstash.ScheduleJSONOptions{
		Cron:        "0 3 * * *",
		Destination: "https://example.com/report",
		Body:        map[string]any{"report": "full"},
	}))(t)
	schedule := must(client.Schedules().Get(id))(t)
	equal(t, "the body", schedule.Body, `{"report":"full"}`)
	equal(t, "the header", schedule.Header, map[string][]string{"Content-Type": {"application/json"}})
	check(t, client.Schedules().Delete(id))

	_, err := client.Schedules().Create(qstash.ScheduleOptions{Cron: "0 24 * * *", Destination: "https://example.com"})
	checkError(t, err, "0 24 * * *")
}
