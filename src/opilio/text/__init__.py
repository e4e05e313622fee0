"""Words: tokens, stems, languages, phrases, document frequencies. No I/O beyond the data files it ships."""
