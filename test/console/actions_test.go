package console_test

import (
	"context"
	"strings"

	"github.com/chromedp/chromedp"
)

// The actions below find their element in the page at the moment at which they use it. Those of chromedp find a node
// first and use it in a later call, so they fail on a list that is drawn anew in between.

// find is an expression for the first element of a selector: XPath if it begins with a slash, else CSS.
func find(selector string) string {
	if strings.HasPrefix(selector, "/") {
		return "document.evaluate(" + quoted(selector) +
			", document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue"
	}
	return "document.querySelector(" + quoted(selector) + ")"
}

// pressable is an expression for the place of an element once a person could click there: it is visible, enabled, not
// covered, and in the same place in two frames.
func pressable(selector string) string {
	return `new Promise(done => {
		let last
		const look = () => {
			const e = ` + find(selector) + `
			if (e === null || !e.checkVisibility({visibilityProperty: true}) || e.matches(":disabled")) {
				last = undefined
				setTimeout(look, 10)
				return
			}
			e.scrollIntoViewIfNeeded(true)
			const box = e.getBoundingClientRect(), at = {x: box.x + box.width / 2, y: box.y + box.height / 2}
			if (last?.e === e && last.x === at.x && last.y === at.y && e.contains(document.elementFromPoint(at.x, at.y))) {
				window.pressed = false
				// The page may have drawn the element anew, in the same place.
				window.addEventListener("click", event => {
					window.pressed ||= [e, ` + find(selector) + `].some(one => one?.contains(event.target))
				}, {capture: true, once: true})
				done(at)
				return
			}
			last = {e, ...at}
			requestAnimationFrame(look)
		}
		look()
	})`
}

// click clicks on the first element of a selector. A click that did not arrive there, since the page was drawn anew
// between the button's two ways, is made again.
func click(selector string) step {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		for {
			at, err := chromedp.Evaluate[struct{ X, Y float64 }](pressable(selector), chromedp.EvalAwaitPromise)(ctx, t)
			if err != nil {
				return none, err
			}
			if _, err := chromedp.MouseClickXY(at.X, at.Y)(ctx, t); err != nil {
				return none, err
			}
			// A page that was loaded by the click knows nothing of it.
			if arrived, err := chromedp.Evaluate[bool](`window.pressed !== false`)(ctx, t); err != nil || arrived {
				return none, err
			}
		}
	}
}

// write types keys into the first element of a selector.
func write(selector, keys string) step {
	focus := `new Promise(done => {
		const look = () => {
			const e = ` + find(selector) + `
			e?.focus()
			e !== null && document.activeElement === e ? done(true) : setTimeout(look, 10)
		}
		look()
	})`
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		if _, err := chromedp.Evaluate[bool](focus, chromedp.EvalAwaitPromise)(ctx, t); err != nil {
			return none, err
		}
		return chromedp.KeyEvent(keys)(ctx, t)
	}
}
