"""Convert user inputs (text, chats, tensors, images, audio) to model inputs and named tokens.

Code that runs a model does not belong here.

    answer_tokens       Find the tokens of an answer that is explained: the whole answer, words of
                        it, or a range.
    chats               Render the messages of a chat as one text, and locate each message in it.
    continuation        A prompt and its continuation, generated or passed: which position produced
                        which token.
    decoder_inputs      Prepare the tokens that the decoder of an encoder-decoder model reads.
    documents           Find documents that are named inside the messages of a chat, in the
                        formatted prompt.
    dummy_inputs        Dummy inputs for a model when the user has none.
    encoding            Tokenise texts: ids, padding, labels and offsets of tokens.
    generation          Generate a continuation, after checking the options.
    generation_options  List the options of `generate` that keep the model's input as it is
                        recorded.
    input_checks        Check every input tensor against the model and the other inputs: name,
                        dtype, shape and range.
    image_grids         Find the place of each image token in the image: one grid of patches, or
                        several.
    inputs              Prepare a text or a dict of tensors for a model: checked, on its device,
                        real tokens first.
    media_labels        Label the tokens of images and audio in a text.
    media_prompts       A prompt with images or audio: a chat with such parts, a dict, or tensors.
    media_spans         Find the tokens of each image and audio clip of a prompt, and the
                        placeholder that they replace.
    message_parts       Count in words ("1 text", "2 texts"), and suggest the nearest names for an
                        unknown one.
    padding             Find the real tokens of a batch, and move them to the front.
    pictures            Images for the viewer, as data URIs.
    processing          Turn images and audio into tensors with a processor.
    prompts             A prompt for a language model: a text, the messages of a chat, or token ids.
    segments            Segments: sources grouped by name, such as turns, documents, sentences or
                        paragraphs.
    token_labels        Label tokens that are not words: patches by row and column, frames by time.
    tokens              The tokens of one text: their labels and offsets, and the positions of named
                        ones.
    vocabulary          Find words and classes by name, name outputs, and check that a tokenizer
                        belongs to a model.
    words               Find the tokens of each word, and merge their rows and columns.
"""
