// Package page is what a browser loads of a listener: a few files, embedded, that ask for nothing
// from elsewhere. The relay's console, the transaction manager and the watchers all serve the same
// files. They hold no secret; what they show they ask of the process that they come from.
//
//	GET /ui/        the page; its parts lie beside it (/ui/app.js …)
//	GET /ui/about   About: which parts the process has, and who asks
//
// frame.js is what all views stand on. relay.js, manager.js and watchers.js are the parts, each of
// which asks the API that its process has for programs, too. app.js asks /ui/about and shows the views.
//
// The files hold no secret, so no token is asked for them. The listener says who may have the rest, and whether without any token only
// a loopback address gets anything. For listeners with access keys, package rest answers both.
//
// # Words
//
//	part       what one kind of process shows: relay, manager or watchers
//	page view  one thing to look at, under #/name in the address
package page
