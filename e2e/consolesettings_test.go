package e2e

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// testSettings looks at what is in force, chooses colours, rotates the signing keys, and stays
// signed in without a tab that is open.
func testSettings(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console("/settings"))
	page.sees("Limits in force")
	page.sees("Stored data")
	page.inspect("settings")
	var server struct{ Version string }
	mustCall(t, c, http.MethodGet, "/v2/server", nil, "", &server)
	page.sees(server.Version)

	ground := `getComputedStyle(document.body).backgroundColor`
	dark := evaluate[string](page, ground) // which the last picture was taken in
	page.do(clickFirst(`.choices label:nth-child(2) input`))
	page.until(ground+` !== "`+dark+`"`, "see the page in light colours")
	page.do(chromedp.Reload())
	page.until(`document.querySelector(".choices label:nth-child(2) input")?.checked && `+ground+` !== "`+dark+`"`, "see it in light colours again")
	page.do(clickFirst(`.choices label:nth-child(1) input`))
	page.until(ground+` === "`+dark+`"`, "see the colours of the system")

	keys := func() (pair struct{ Current, Next string }) {
		mustCall(t, c, http.MethodGet, "/v2/keys", nil, "", &pair)
		return pair
	}
	before := keys()
	page.press("Show")
	page.sees(before.Next)
	page.press("Rotate…")
	page.press("Keep as it is")
	page.press("Rotate…")
	page.press("Rotate")
	page.misses(before.Current)
	if after := keys(); after.Current != before.Next {
		t.Errorf("the keys are %v after %v", after, before)
	}

	page.do(clickFirst(`.panel input[type="checkbox"]`))
	page.sees("stored in this browser")
	evaluate[bool](page, `(sessionStorage.clear(), true)`) // as a browser that is closed does
	page.do(chromedp.Navigate(c.base + "/console/settings"))
	page.sees("stored in this browser")
	page.press("Sign out")
	page.sees("posthaste dev prints it")
	if kept := evaluate[int](page, `localStorage.length + sessionStorage.length`); kept != 0 {
		t.Errorf("%d things are kept after signing out", kept)
	}
}

// testCauses looks at what failed by cause, at the entries of one, and deletes those of one.
func testCauses(t *testing.T, b *browser, c *client, s *sink) {
	settings := map[string]string{"Upstash-Retries": "0", "Upstash-Label": "causes"}
	for _, destination := range []string{s.url + "/" + answerBroken, s.url + "/" + answerRejected, s.url + "/" + answerBroken, "http://127.0.0.1:1/"} {
		if _, err := c.publish(t.Context(), destination, settings, "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLog(t, url.Values{"label": {"causes"}, "state": {"FAILED"}}, 4)
	page := b.open(t, desktop, c.console("/dlq/messages?label=causes"))
	page.sees("4 entries")
	page.press("By cause")
	page.sees("3 causes of 4 entries")
	page.inspect("dlq-causes")
	causes := evaluate[[]string](page, `[...document.querySelectorAll("tbody tr")].map((row) => row.cells[0].innerText.split(" ")[0] + " " + row.cells[1].innerText + " " + row.cells[2].innerText)`)
	if want := "500 " + s.host() + " 2"; causes[0] != want {
		t.Errorf("the causes are %q, want %q first", causes, want)
	}
	page.sees("connection refused")
	page.press("Show")
	page.sees("2 entries")
	page.press("Remove filter Cause: 500 from " + s.host())
	page.sees("4 entries")
	page.press("By cause")
	page.press("Delete…")
	page.press("Delete 2 entries")
	page.sees("2 deleted.")
	page.press("Done")
	page.sees("2 causes of 2 entries")
}
