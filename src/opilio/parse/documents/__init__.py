"""Documents that are not HTML: PDF, DOCX, EPUB and XML, converted to HTML and then read like any page."""
