package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"
)

// cronWords are cron expressions, what the console says of them, and what these words say:
// when a schedule ticks, by the clock in UTC.
var cronWords = []struct {
	cron, words string
	ticks       func(at time.Time) bool
}{
	{"* * * * *", "every minute", func(time.Time) bool { return true }},
	{"*/90 * * * *", "every hour, on the hour every day", func(at time.Time) bool { return at.Minute() == 0 }},
	{"*/15 * * * *", "every 15 minutes", func(at time.Time) bool { return at.Minute()%15 == 0 }},
	{"*/25 * * * *", "at minute 0, 25 and 50 of every hour every day",
		func(at time.Time) bool { return slices.Contains([]int{0, 25, 50}, at.Minute()) }},
	{"50/4 * * * *", "at minute 50, 54 and 58 of every hour every day",
		func(at time.Time) bool { return slices.Contains([]int{50, 54, 58}, at.Minute()) }},
	{"0 */30 * * *", "at 00:00 every day", func(at time.Time) bool { return at.Hour() == 0 && at.Minute() == 0 }},
	{"*/20 */6 * * *", "every 20 minutes, every 6 hours every day", func(at time.Time) bool { return at.Minute()%20 == 0 && at.Hour()%6 == 0 }},
	{"0 9-17 * * MON-FRI", "on the hour, in the hours 09:00 to 17:00 on Monday to Friday", func(at time.Time) bool {
		return at.Minute() == 0 && at.Hour() >= 9 && at.Hour() <= 17 && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday
	}},
	{"0 0 13 * FRI", "at 00:00 on day 13 of the month, and also on Friday",
		func(at time.Time) bool { return isMidnight(at) && (at.Day() == 13 || at.Weekday() == time.Friday) }},
	{"0 0 1-31 * FRI", "at 00:00 every day", isMidnight},
	{"0 0 */1 * FRI", "at 00:00 on Friday", func(at time.Time) bool { return isMidnight(at) && at.Weekday() == time.Friday }},
	{"0 0 * * FRI-7", "at 00:00 on Friday to Sunday", func(at time.Time) bool {
		return isMidnight(at) && (at.Weekday() >= time.Friday || at.Weekday() == time.Sunday)
	}},
	{"0 0 1 */4 ?", "at 00:00 on day 1 of the month in January, May and September", func(at time.Time) bool {
		return isMidnight(at) && at.Day() == 1 && slices.Contains([]time.Month{time.January, time.May, time.September}, at.Month())
	}},
}

func isMidnight(at time.Time) bool { return at.Hour() == 0 && at.Minute() == 0 }

// testCronWords compares what the console says of expressions with when the server ticks.
func testCronWords(t *testing.T, b *browser, c *client, s *sink) {
	for i, test := range cronWords {
		settings := map[string]string{"Upstash-Cron": test.cron, "Upstash-Schedule-Id": fmt.Sprint("words-", i)}
		if err := c.call(t.Context(), http.MethodPost, "/v2/schedules/"+s.url+"/"+answerOK, settings, "", nil); err != nil {
			t.Fatal(err)
		}
		checkTicks(t, c, test.cron, test.words, test.ticks)
	}
	page := b.open(t, desktop, c.console("/schedules"))
	page.sees("words-0")
	for i, test := range cronWords {
		words := evaluate[string](page, fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((row) => row.querySelector("a").innerText === "words-%d").querySelector("small").innerText`, i))
		if words != test.words {
			t.Errorf("%s: the console says %q, want %q", test.cron, words, test.words)
		}
		if err := c.call(t.Context(), http.MethodDelete, fmt.Sprint("/v2/schedules/words-", i), nil, "", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// checkTicks compares the next ticks of an expression with the minutes that words mean.
func checkTicks(t *testing.T, c *client, cron, words string, ticks func(time.Time) bool) {
	t.Helper()
	var next struct{ Ticks []int64 }
	if err := c.call(t.Context(), http.MethodGet, "/v2/ticks?"+url.Values{"cron": {cron}, "count": {"10"}}.Encode(), nil, "", &next); err != nil {
		t.Fatal(err)
	}
	got := make([]time.Time, len(next.Ticks))
	for i, at := range next.Ticks {
		got[i] = time.UnixMilli(at).UTC()
	}
	var want []time.Time
	for at := got[0]; !at.After(got[len(got)-1]); at = at.Add(time.Minute) {
		if ticks(at) {
			want = append(want, at)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s ticks at %v, but %q means %v", cron, got, words, want)
	}
}
